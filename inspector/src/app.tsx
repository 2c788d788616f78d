import { useEffect, useRef, useState } from "preact/hooks";
import { useAsked } from "./api";
import { Frame } from "./parts/frame";
import { Refused } from "./parts/states";
import { Session } from "./session";
import { usePlace, type Place } from "./router";
import type { Me } from "./types";
import { EventView } from "./views/event";
import { Overview } from "./views/overview";
import { Space } from "./views/space";
import { StoryView } from "./views/story";

export function App() {
  const place = usePlace();
  const [round, setRound] = useState(0);
  const asked = useAsked<Me>("access", {}, round);
  const me = asked.state === "there" ? asked.value : asked.state === "waiting" ? asked.last : undefined;
  const again = () => setRound((before) => before + 1);
  useArrival(place);
  return (
    <Session.Provider value={{ me, round, again }}>
      <Frame place={place}>
        {/* Without a key that is known nothing can be asked; every other view says itself what it may not show. */}
        {asked.state === "refused" ? <Refused refusal={asked.refusal} title="This memory asks who you are" /> : me && <View place={place} />}
      </Frame>
    </Session.Provider>
  );
}

function View({ place }: { place: Place }) {
  const [namespace, kind = "events", id] = place.parts;
  if (namespace === undefined) return <Overview query={place.query} />;
  if (kind === "event" && id !== undefined) return <EventView namespace={namespace} id={id} />;
  if (kind === "request" && id !== undefined) return <StoryView namespace={namespace} id={id} />;
  return <Space namespace={namespace} kind={kind} query={place.query} />;
}

/** A new view begins at its top, with its heading in focus; the first one, and one that is only paged, do not. */
function useArrival(place: Place): void {
  const where = JSON.stringify(place.parts);
  const before = useRef(where);
  useEffect(() => {
    if (before.current === where) return;
    before.current = where;
    scrollTo(0, 0);
    const arrive = () => document.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true });
    requestAnimationFrame(arrive);
  }, [where]);
}

