import { useAsked } from "../api";
import { brief, count, counted, line, ms, speed, visible } from "../format";
import { Cost } from "../parts/cost";
import { ForgetButton } from "../parts/forget";
import { Sequence } from "../parts/sequence";
import { Answer } from "../parts/states";
import { When } from "../parts/time";
import { Title } from "../parts/title";
import { Votes } from "../parts/votes";
import { Words } from "../parts/words";
import { go, to } from "../router";
import { useSession } from "../session";
import type { Story } from "../types";

/** Why a request recalled what it did. */
export function StoryView({ namespace, id }: { namespace: string; id: string }) {
  const { round } = useSession();
  const asked = useAsked<Story>(`requests/${encodeURIComponent(id)}`, { namespace }, round);
  return <Answer asked={asked} rows={10}>{(story) => <Shown story={story} />}</Answer>;
}

function Shown({ story }: { story: Story }) {
  const { recalled, ms: times } = story;
  return (
    <>
      <div class="heading">
        <div>
          <Title page={line(story.asked, 40)}>Story of a request</Title>
          <p class="lead"><When at={story.at} as="full" />, <code>{story.id}</code></p>
        </div>
        {recalled.length > 0 && (
          <ForgetButton
            namespace={story.namespace} label="Forget…"
            choices={[
              { label: "What this request recalled", selection: { request: story.id, deed: "recalled" } },
              { label: "What it wrote", selection: { request: story.id, deed: "written" } },
              { label: "Both", selection: { request: story.id, deed: "both" } },
            ]}
            done={() => go(to([story.namespace, "requests"]))}
          />
        )}
      </div>
      <ul class="tiles">
        <li><span>Recalled</span><strong>{counted(recalled.length, "event")}</strong></li>
        <li><span>First token after</span><strong>{times.first_token === undefined ? "–" : ms(times.first_token)}</strong></li>
        <li><span>Decode</span><strong>{story.num_written && times.decode !== undefined ? speed(story.num_written, times.decode) : "–"}</strong></li>
        <li><span>Read and written</span><strong>{count(story.prompt.token_ids.length)} + {story.num_written === null ? "…" : count(story.num_written)} <small>tokens</small></strong></li>
      </ul>
      <section class="block">
        <h2>What was asked, and which words the votes rest on</h2>
        <Words story={story} />
      </section>
      <section class="block">
        <h2>How events were voted for</h2>
        <p class="why">{sentence(story.reason)}</p>
        <Votes story={story} />
      </section>
      <section class="block">
        <h2>What was recalled, in the order it was read</h2>
        {recalled.length === 0 ? (
          <p class="soft">Nothing. The prompt was read once, and nothing was put in front of it.</p>
        ) : (
          <ol class="recalls">
            {recalled.map((event) => (
              <li key={event.id} class="card">
                <a class="cover" href={to([event.namespace, "event", event.id])}><span class="words" dir="auto">{visible(event.words).trim() || "(no words)"}</span></a>
                <p class="meta">
                  <span class="chip role">{event.role}</span><span>said <When at={event.said_at} /></span>
                  <span>in <a class="over" href={to([event.namespace, "events"], { chat: event.chat_id, order: "oldest" })}><bdi>{event.namespace}</bdi>, chat <code>{brief(event.chat_id).slice(0, 6)}</code></a></span>
                  <span>{count(event.num_tokens)} tokens</span>{event.why && <span>{why(event.why, story)}</span>}
                </p>
              </li>
            ))}
          </ol>
        )}
        <Sequence story={story} />
      </section>
      <section class="block">
        <h2>What it cost</h2>
        <Cost story={story} />
      </section>
      <p class="soft small">A record is kept until the server restarts or something of its namespace is forgotten.</p>
    </>
  );
}

/** Why an event is there; one that another leads to names it by its words. */
function why(text: string, story: Story): string {
  const [, id, shared] = text.match(/^linked with (\S+), which shares (\S+) with it$/) ?? [];
  const from = story.recalled.find((event) => id !== undefined && event.id.startsWith(id));
  return from ? `“${line(from.words, 36)}” leads to it, rare words shared: ${shared}` : text;
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
