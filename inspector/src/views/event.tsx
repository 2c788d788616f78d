import { useAsked } from "../api";
import { brief, bytes, count, form, full, line, visible } from "../format";
import { ForgetButton } from "../parts/forget";
import { Graph } from "../parts/graph";
import { Answer } from "../parts/states";
import { When } from "../parts/time";
import { Title } from "../parts/title";
import { go, to } from "../router";
import { owns, useSession } from "../session";
import { ties, type Tied } from "../ties";
import type { Ties } from "../types";

export function EventView({ namespace, id }: { namespace: string; id: string }) {
  const { me, round } = useSession();
  const asked = useAsked<Ties>(`events/${encodeURIComponent(id)}/ties`, { namespace }, round);
  return <Answer asked={asked}>{(found) => <Shown found={found} mine={owns(me, namespace)} />}</Answer>;
}

function Shown({ found, mine }: { found: Ties; mine: boolean }) {
  const { event, before } = found;
  const others = ties(found);
  return (
    <>
      <div class="heading">
        <div>
          <Title page={line(event.words, 40)}>Event</Title>
          <p class="lead"><span class="chip role">{event.role}</span> said <When at={event.said_at} /></p>
        </div>
        {mine && (
          <ForgetButton
            namespace={event.namespace} label="Forget…"
            choices={[
              { label: "This event, and what says the same in the same words", selection: { ids: [event.id] } },
              { label: "This event alone", selection: { ids: [event.id], alike: false } },
              { label: "All of its chat", selection: { chat_id: event.chat_id } },
            ]}
            done={() => go(to([event.namespace, "events"]))}
          />
        )}
      </div>
      <div class="columns">
        <div>
          <section class="card quote" aria-label="Its words">
            <p class="words" dir="auto">{visible(event.words).trim() || "(no words)"}</p>
            {before && <p class="before soft">Said behind <a href={to([before.namespace, "event", before.id])}><bdi dir="auto">{line(before.words, 70)}</bdi></a></p>}
          </section>
          {found.recalled_by.length > 0 && (
            <section class="lately">
              <h2>Recalled lately by</h2>
              <ul class="plain">
                {found.recalled_by.slice(0, 5).map((request) => (
                  <li key={request.id}><a href={to([event.namespace, "request", request.id])}><bdi dir="auto">{line(request.asked, 70) || request.id}</bdi></a> <span class="soft small"><When at={request.at} /></span></li>
                ))}
              </ul>
            </section>
          )}
        </div>
        <dl class="facts card">
          <div><dt>Said</dt><dd>{full(event.said_at)}</dd></div>
          <div><dt>Last recalled</dt><dd><When at={event.recalled_at} /></dd></div>
          <div><dt>Chat</dt><dd><a href={to([event.namespace, "events"], { chat: event.chat_id, order: "oldest" })}><code>{brief(event.chat_id)}</code></a></dd></div>
          <div><dt>Tokens</dt><dd>{count(event.num_tokens)}</dd></div>
          <div><dt>Trace</dt><dd>{bytes(event.num_bytes)}, {form(event.form)}</dd></div>
          <div><dt>Id</dt><dd><code class="id">{event.id}</code></dd></div>
        </dl>
      </div>
      <section class="block">
        <h2>What it is tied to</h2>
        {others.length === 0 ? (
          <p class="soft">Nothing: no link is stored, and no other event shares rare words with it.</p>
        ) : (
          <div class="tied">
            <Graph event={event} ties={others} />
            <TieTable others={others} />
          </div>
        )}
      </section>
    </>
  );
}

function TieTable({ others }: { others: Tied[] }) {
  return (
    <div class="scroll" role="region" aria-label="Ties" tabIndex={0}>
      <table class="grid">
        <caption class="hidden">The same as a table</caption>
        <thead><tr><th scope="col"><span class="hidden">Number in the picture</span></th><th scope="col">Event</th><th scope="col" class="mid">Tie</th><th scope="col">By</th><th scope="col" class="number wide">Weight</th></tr></thead>
        <tbody>
          {others.map((tie) => (
            <tr key={`${tie.kind}${tie.event.id}`}>
              <td class="number soft">{tie.number}</td>
              <th scope="row" class="text"><a class="cover" href={to([tie.event.namespace, "event", tie.event.id])}><bdi dir="auto">{line(tie.event.words, 80) || "(no words)"}</bdi></a>{tie.kind !== "lead" && <span class="thin soft small">{tie.says}</span>}</th>
              <td class="mid"><span class={`chip ${tie.kind}`}>{tie.says}</span></td>
              <td>{tie.words.length ? tie.words.map((word) => <span key={word} class="chip word"><bdi>{visible(word)}</bdi></span>) : <span class="soft">{tie.kind === "lead" ? "marks and spaces" : "a stored link"}</span>}</td>
              <td class="number wide">{tie.weight.toFixed(2)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
