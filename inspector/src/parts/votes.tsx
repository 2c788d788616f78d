import { brief, line } from "../format";
import { to } from "../router";
import type { Story } from "../types";

/** Votes as bars, the floor as a line through them. */
export function Votes({ story }: { story: Story }) {
  const { votes, thresholds } = story;
  const { floor, sure, ratio } = thresholds;
  if (votes.length === 0) return <p class="soft">No event was voted for.</p>;
  const top = Math.max(floor * 1.15, ...votes.map((vote) => vote.value)) || 1;
  const share = (value: number) => `${Math.min(100, Math.max(0, (100 * value) / top))}%`;
  return (
    <>
      <div class="scroll" role="region" aria-label="Votes" tabIndex={0}>
        <table class="votes">
          <caption class="hidden">The best votes; the floor is {floor.toFixed(2)}</caption>
          <thead class="hidden"><tr><th scope="col">Event</th><th scope="col">Vote</th><th scope="col">As a bar</th><th scope="col">What came of it</th></tr></thead>
          <tbody>
            {votes.map((vote) => (
              <tr key={vote.event_id} class={vote.recalled ? "yes" : "no"}>
                <th scope="row">{vote.event ? <a href={to([vote.event.namespace, "event", vote.event_id])}><bdi dir="auto">{line(vote.event.words, 64) || "(no words)"}</bdi></a> : <span class="soft">event <code>{brief(vote.event_id)}</code>, not yours to see or forgotten</span>}</th>
                <td class="bar" aria-hidden="true"><div><span class="fill" style={{ width: share(vote.value) }} /><span class="floor" style={{ insetInlineStart: share(floor) }} /></div></td>
                <td class="number">{vote.value.toFixed(2)}</td>
                <td class="came">{vote.recalled ? <span class="chip mem">recalled</span> : <span class="soft">{vote.value >= floor ? "left out" : "below the floor"}</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="soft small legend"><i class="floor" aria-hidden="true" /> floor {floor.toFixed(2)}: what one vote has to reach. With what it shares of the question's rare words, the best event has to come to {(sure * floor).toFixed(2)}; others to {Math.round(ratio * 100)}% of the best.</p>
    </>
  );
}
