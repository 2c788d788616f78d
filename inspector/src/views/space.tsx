import { useAsked } from "../api";
import { bytes, count, counted } from "../format";
import { ForgetButton, type Choice } from "../parts/forget";
import { When } from "../parts/time";
import { Title } from "../parts/title";
import { go, to } from "../router";
import { owns, useSession } from "../session";
import type { Uses } from "../types";
import { Chats } from "./chats";
import { Events } from "./events";
import { Requests } from "./requests";

const TABS: [string, string][] = [["events", "Events"], ["chats", "Chats"], ["requests", "Requests"]];

/** One namespace: what it holds in numbers, and its events, chats and requests. */
export function Space({ namespace, kind, query }: { namespace: string; kind: string; query: Record<string, string> }) {
  const { me, round } = useSession();
  const mine = owns(me, namespace);
  const tabs = TABS.filter(([name]) => name !== "requests" || mine);
  return (
    <>
      <div class="heading">
        <div>
          <Title page={namespace}><bdi>{namespace}</bdi></Title>
          <Numbers namespace={namespace} round={round} />
        </div>
        {mine && <ForgetButton namespace={namespace} label="Forget…" choices={choices(query)} done={() => go(to([namespace, "events"]))} />}
      </div>
      <nav class="tabs" aria-label="Of this namespace">
        <ul>{tabs.map(([name, label]) => <li key={name}><a href={to([namespace, name])} aria-current={name === kind ? "page" : undefined}>{label}</a></li>)}</ul>
      </nav>
      {kind === "chats" ? <Chats namespace={namespace} query={query} /> : kind === "requests" ? <Requests namespace={namespace} query={query} /> : <Events namespace={namespace} query={query} />}
    </>
  );
}

function Numbers({ namespace, round }: { namespace: string; round: number }) {
  const asked = useAsked<Uses>("uses", { namespace, text: namespace, limit: 50 }, round);
  const found = asked.state === "there" ? asked.value : asked.state === "waiting" ? asked.last : undefined;
  const use = found?.namespaces.find((each) => each.namespace === namespace);
  if (use === undefined) return <p class="lead">{asked.state === "there" ? "Nothing is remembered here." : " "}</p>;
  return (
    <p class="lead facts">
      <span>{counted(use.num_events, "event")}</span><span>{counted(use.num_chats, "chat")}</span><span>{count(use.num_tokens)} tokens</span><span>{bytes(use.num_bytes)}</span>
      <span>written <When at={use.said_at} /></span><span>recalled <When at={use.recalled_at} /></span>
    </p>
  );
}

function choices(query: Record<string, string>): Choice[] {
  return [
    ...(query.chat ? [{ label: "The chat that is shown", selection: { chat_id: query.chat } }] : []),
    { label: "What was said between two times", selection: {}, between: true },
    { label: "Everything", selection: { everything: true } },
  ];
}
