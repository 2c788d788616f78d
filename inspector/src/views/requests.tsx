import { useAsked } from "../api";
import { count, line, ms, speed } from "../format";
import { Pager } from "../parts/pager";
import { Answer, Empty } from "../parts/states";
import { When } from "../parts/time";
import { to } from "../router";
import { useSession } from "../session";
import type { Brief, Briefs } from "../types";

const LIMIT = 50;

export function Requests({ namespace, query }: { namespace: string; query: Record<string, string> }) {
  const { round } = useSession();
  const start = Number(query.start ?? 0);
  const asked = useAsked<Briefs>("requests", { namespace, start, limit: LIMIT }, round);
  return (
    <Answer asked={asked}>
      {({ requests, num_requests, next }) =>
        requests.length === 0 ? (
          <Empty title="No request is known">The last requests that had something to look in are kept until the server restarts, or something of the namespace is forgotten.</Empty>
        ) : (
          <>
            <div class="scroll" role="region" aria-label="Requests" tabIndex={0}>
              <table class="grid">
                <caption class="hidden">Last requests of the namespace, newest first</caption>
                <thead>
                  <tr><th scope="col">Asked</th><th scope="col">Recalled</th><th scope="col" class="wide">Best vote</th><th scope="col" class="number mid">First token</th><th scope="col" class="number wide">Decode</th><th scope="col">When</th></tr>
                </thead>
                <tbody>{requests.map((request) => <Row key={request.id} namespace={namespace} request={request} />)}</tbody>
              </table>
            </div>
            <Pager start={start} limit={LIMIT} shown={requests.length} total={num_requests} next={next} what={num_requests === 1 ? "request" : "requests"} link={(place) => to([namespace, "requests"], { start: place || undefined })} />
          </>
        )
      }
    </Answer>
  );
}

function Row({ namespace, request }: { namespace: string; request: Brief }) {
  const { best_vote: best, floor, num_written: written, decode_ms: decode, first_token_ms: first } = request;
  return (
    <tr>
      <th scope="row" class="text"><a class="cover" href={to([namespace, "request", request.id])}><bdi dir="auto">{line(request.asked) || "(no words)"}</bdi></a></th>
      <td>{request.num_recalled ? <span class="chip mem">{count(request.num_recalled)}</span> : <span class="soft">nothing</span>}</td>
      <td class="wide">{best === null ? <span class="soft">none</span> : <span class={best >= floor ? "vote" : "vote soft"}>{best.toFixed(2)}<span class="soft"> / {floor.toFixed(2)}</span></span>}</td>
      <td class="number mid">{first === null ? <span class="soft">running</span> : ms(first)}</td>
      <td class="number wide">{written !== null && decode !== null ? speed(written, decode) : <span class="soft">–</span>}</td>
      <td><When at={request.at} /></td>
    </tr>
  );
}
