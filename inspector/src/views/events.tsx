import { useEffect, useState } from "preact/hooks";
import { useAsked } from "../api";
import { brief, bytes, count, day, form, visible } from "../format";
import { Pager } from "../parts/pager";
import { Answer, Empty } from "../parts/states";
import { When } from "../parts/time";
import { go, to } from "../router";
import { useSession } from "../session";
import type { Item, Page } from "../types";

const LIMIT = 50;
const ROLES = ["user", "assistant", "tool", "text"];

export function Events({ namespace, query }: { namespace: string; query: Record<string, string> }) {
  const { round } = useSession();
  const { chat, role, text, since, until, order = "newest" } = query;
  const start = Number(query.start ?? 0);
  const asked = useAsked<Page>(
    "events",
    { namespace, chat_id: chat, role, text, since: at(since), until: at(until, 86_400), order, start, limit: LIMIT },
    round,
  );
  const link = (change: Record<string, string | number | undefined>) =>
    to([namespace, "events"], { chat, role, text, since, until, order: order === "newest" ? undefined : order, ...change });
  const isNarrow = [chat, role, text, since, until].some(Boolean);
  return (
    <>
      <Narrow key={JSON.stringify(query)} query={query} link={link} />
      {chat && <p class="only"><span>Only the chat <code>{brief(chat)}</code></span> <a href={link({ chat: undefined })}>Show all chats</a></p>}
      <Answer asked={asked} rows={8}>
        {(page) => (
          <>
            {page.events.length === 0 ? (
              <Empty title={isNarrow ? "No event is like that" : "Nothing is remembered here"}>
                {isNarrow ? <a href={to([namespace, "events"])}>Show all events</a> : "An event is kept for every turn that the model reads. Look at another namespace, or talk to the model in this one."}
              </Empty>
            ) : (
              days(page.events).map(([label, events]) => (
                <section key={label} class="day">
                  <h2>{label}</h2>
                  <ol class="events">{events.map((event) => <Row key={event.id} event={event} chat={chat} />)}</ol>
                </section>
              ))
            )}
            <Pager start={start} limit={LIMIT} shown={page.events.length} total={page.num_events} next={page.next} what={page.num_events === 1 ? "event" : "events"} searching={Boolean(text)} link={(place) => link({ start: place || undefined })} />
          </>
        )}
      </Answer>
    </>
  );
}

function Row({ event, chat }: { event: Item; chat: string | undefined }) {
  return (
    <li class={`row ${event.role === "user" ? "user" : "other"}`}>
      <span class="at"><When at={event.said_at} as="clock" /></span>
      <div class="what">
        <a class="cover" href={to([event.namespace, "event", event.id])}><span class="hidden">{event.role} said: </span><span class="words" dir="auto">{visible(event.words).trim() || "(no words)"}</span></a>
        <p class="meta">
          <span class="chip role">{event.role}</span>
          <span>{count(event.num_tokens)} tokens</span><span>{bytes(event.num_bytes)}</span><span class="wide">{form(event.form)}</span>
          {event.recalled_at !== null && <span class="recalled">recalled <When at={event.recalled_at} /></span>}
          {!chat && <a class="over" href={to([event.namespace, "events"], { chat: event.chat_id, order: "oldest" })} aria-label={`The chat ${brief(event.chat_id)} of this event`}>chat {brief(event.chat_id).slice(0, 6)}</a>}
        </p>
      </div>
    </li>
  );
}

type Link = (change: Record<string, string | number | undefined>) => string;

function Narrow({ query, link }: { query: Record<string, string>; link: Link }) {
  const [text, setText] = useState(query.text ?? "");
  const [isOpen, setOpen] = useState(Boolean(query.since || query.until));
  useEffect(() => setText(query.text ?? ""), [query.text]);
  const change = (name: string) => (event: { currentTarget: { value: string } }) => go(link({ [name]: event.currentTarget.value, text, start: undefined }));
  return (
    <form class="narrow" role="search" aria-label="Events" onSubmit={(event) => { event.preventDefault(); go(link({ text, start: undefined })); }}>
      <label class="grow"><span class="hidden">Words in the event</span>
        <input type="search" placeholder="Words in the event" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="submit" class="button">Search</button>
      <label><span class="hidden">Said by</span>
        <select value={query.role ?? ""} onChange={change("role")}>
          <option value="">Said by anyone</option>
          {ROLES.map((role) => <option key={role} value={role}>{role}</option>)}
        </select>
      </label>
      <label><span class="hidden">Order</span>
        <select value={query.order ?? "newest"} onChange={change("order")}>
          <option value="newest">Newest first</option>
          <option value="oldest">Oldest first</option>
        </select>
      </label>
      <button type="button" class="button quiet" aria-expanded={isOpen} aria-controls="dates" onClick={() => setOpen(!isOpen)}>Dates</button>
      <div id="dates" class="dates" hidden={!isOpen}>
        <label>From <input type="date" value={query.since ?? ""} onChange={change("since")} /></label>
        <label>Until <input type="date" value={query.until ?? ""} onChange={change("until")} /></label>
      </div>
    </form>
  );
}

/** The reader's own days: a day given as 2026-11-30 begins at its midnight, `later` seconds after which it ends. */
function at(date: string | undefined, later = 0): number | undefined {
  if (!date) return undefined;
  const time = new Date(`${date}T00:00`).getTime() / 1000;
  return Number.isFinite(time) ? time + later : undefined;
}

function days(events: Item[]): [string, Item[]][] {
  const found: [string, Item[]][] = [];
  for (const event of events) {
    const label = day(event.said_at);
    const last = found.at(-1);
    if (last && last[0] === label) last[1].push(event);
    else found.push([label, [event]]);
  }
  return found;
}
