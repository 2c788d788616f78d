import { useState } from "preact/hooks";
import { useAsked } from "../api";
import { bytes, count } from "../format";
import { Pager } from "../parts/pager";
import { Answer, Empty } from "../parts/states";
import { When } from "../parts/time";
import { Title } from "../parts/title";
import { go, to } from "../router";
import { useSession } from "../session";
import type { Use, Uses } from "../types";

const LIMIT = 25;

export function Overview({ query }: { query: Record<string, string> }) {
  const { me, round } = useSession();
  const start = Number(query.start ?? 0);
  const text = query.text ?? "";
  const asked = useAsked<Uses>("uses", { text, start, limit: LIMIT }, round);
  return (
    <>
      <div class="heading">
        <div>
          <Title page="Namespaces">Namespaces</Title>
          <p class="lead">Whose memories this server keeps. Nothing crosses from one to another.</p>
        </div>
        {me?.policy === "open" && !me.operator ? <Open /> : <Filter text={text} />}
      </div>
      <Answer asked={asked}>
        {(uses) =>
          uses.namespaces.length === 0 ? (
            <Empty title={text ? "No namespace is called that" : "Nothing is remembered yet"}>
              {text ? "Names are searched for in any case, at any place." : "Talk to the model; what it reads is kept here once the reply is over."}
            </Empty>
          ) : (
            <>
              <div class="scroll" role="region" aria-label="Namespaces" tabIndex={0}>
                <table class="grid">
                  <caption class="hidden">Namespaces and what they hold</caption>
                  <thead>
                    <tr>
                      <th scope="col">Namespace</th><th scope="col" class="number">Events</th><th scope="col" class="number wide">Chats</th>
                      <th scope="col" class="number wide">Tokens</th><th scope="col" class="number mid">On disk</th>
                      <th scope="col">Last written</th><th scope="col" class="wide">Last recalled</th>
                    </tr>
                  </thead>
                  <tbody>{uses.namespaces.map((use) => <Row key={use.namespace} use={use} most={Math.max(...uses.namespaces.map((other) => other.num_bytes))} />)}</tbody>
                </table>
              </div>
              <Pager start={start} limit={LIMIT} shown={uses.namespaces.length} total={uses.num_namespaces} next={uses.next} what={uses.num_namespaces === 1 ? "namespace" : "namespaces"} link={(at) => to([], { text, start: at || undefined })} />
            </>
          )
        }
      </Answer>
      {me?.policy === "open" && !me.operator && (
        <p class="note">This server trusts whoever names a namespace, so it lists your own and opens any other by its name. An operator's key lists all of them.</p>
      )}
    </>
  );
}

function Row({ use, most }: { use: Use; most: number }) {
  return (
    <tr>
      <th scope="row">
        <a class="cover" href={to([use.namespace, "events"])}><bdi>{use.namespace}</bdi></a>
        {!use.writable && <span class="chip">shared, read only</span>}
      </th>
      <td class="number">{count(use.num_events)}</td>
      <td class="number wide">{count(use.num_chats)}</td>
      <td class="number wide">{count(use.num_tokens)}</td>
      <td class="number size mid"><span>{bytes(use.num_bytes)}</span><span class="meter" aria-hidden="true"><span style={{ width: `${most ? Math.max(2, (100 * use.num_bytes) / most) : 0}%` }} /></span></td>
      <td><When at={use.said_at} /></td>
      <td class="wide"><When at={use.recalled_at} /></td>
    </tr>
  );
}

function Filter({ text }: { text: string }) {
  const [typed, setTyped] = useState(text);
  return (
    <form class="ask" role="search" onSubmit={(event) => { event.preventDefault(); go(to([], { text: typed })); }}>
      <label class="hidden" for="filter">Part of a name</label>
      <input id="filter" type="search" placeholder="Part of a name" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
      <button class="button" type="submit">Find</button>
    </form>
  );
}

function Open() {
  const [typed, setTyped] = useState("");
  return (
    <form class="ask" onSubmit={(event) => { event.preventDefault(); if (typed) go(to([typed, "events"])); }}>
      <label class="hidden" for="open">Name of a namespace</label>
      <input id="open" placeholder="Name of a namespace" spellcheck={false} autocomplete="off" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
      <button class="button" type="submit">Open</button>
    </form>
  );
}

