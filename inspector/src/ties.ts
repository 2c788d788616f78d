// Links and leads of an event as one list, strongest first, numbered as the picture and the table show them.

import type { Item, Ties } from "./types";

export interface Tied {
  number: number;
  kind: "newer" | "older" | "link" | "lead";
  says: string;
  weight: number;
  words: string[];
  event: Item;
}

const MOST = 10;

export function ties(found: Ties): Tied[] {
  const links = found.links.map((link) => {
    const kind = link.kind !== "supersedes" ? ("link" as const) : link.outgoing ? ("older" as const) : ("newer" as const);
    const says = { link: "belongs together", older: "corrects it", newer: "corrected by it" }[kind];
    return { kind, says, weight: link.weight, words: [] as string[], event: link.event };
  });
  const linked = new Set(links.map((link) => link.event.id));
  const leads = found.leads
    .filter((lead) => !linked.has(lead.event.id))
    .map((lead) => ({ kind: "lead" as const, says: "shares rare words", weight: lead.shared, words: lead.words.slice(0, 4), event: lead.event }));
  return [...links, ...leads].slice(0, MOST).map((tie, place) => ({ number: place + 1, ...tie }));
}
