// Who looks at the memory, and when to look again.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Me } from "./types";

export interface Looking {
  me: Me | undefined;
  round: number;
  again: () => void;
}

export const Session = createContext<Looking>({ me: undefined, round: 0, again: () => {} });

export const useSession = (): Looking => useContext(Session);

/** Whether the reader may forget what a namespace holds, and ask about its requests. */
export function owns(me: Me | undefined, namespace: string): boolean {
  return me !== undefined && (me.policy === "open" || me.operator || me.namespace === namespace);
}
