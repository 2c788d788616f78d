import { useAsked } from "../api";
import { brief, bytes, count, line } from "../format";
import { Pager } from "../parts/pager";
import { Answer, Empty } from "../parts/states";
import { When } from "../parts/time";
import { to } from "../router";
import { useSession } from "../session";
import type { Chats as Found } from "../types";

const LIMIT = 50;

export function Chats({ namespace, query }: { namespace: string; query: Record<string, string> }) {
  const { round } = useSession();
  const start = Number(query.start ?? 0);
  const asked = useAsked<Found>("chats", { namespace, start, limit: LIMIT }, round);
  return (
    <Answer asked={asked}>
      {({ chats, num_chats, next }) =>
        chats.length === 0 ? (
          <Empty title="No chat is remembered here">Events that were read in one conversation stand together as a chat.</Empty>
        ) : (
          <>
            <div class="scroll" role="region" aria-label="Chats" tabIndex={0}>
              <table class="grid">
                <caption class="hidden">Chats of the namespace, that first in which something was said last</caption>
                <thead>
                  <tr><th scope="col">Begins with</th><th scope="col" class="number">Events</th><th scope="col" class="number wide">Tokens</th><th scope="col" class="number wide">On disk</th><th scope="col">Last said</th><th scope="col" class="wide">Last recalled</th></tr>
                </thead>
                <tbody>
                  {chats.map((chat) => (
                    <tr key={chat.chat_id}>
                      <th scope="row" class="text">
                        <a class="cover" href={to([namespace, "events"], { chat: chat.chat_id, order: "oldest" })}><bdi dir="auto">{chat.first ? line(chat.first.words) || "(no words)" : "(gone)"}</bdi></a>
                        <code class="soft small">{brief(chat.chat_id)}</code>
                      </th>
                      <td class="number">{count(chat.num_events)}</td><td class="number wide">{count(chat.num_tokens)}</td><td class="number wide">{bytes(chat.num_bytes)}</td>
                      <td><When at={chat.said_at} /></td><td class="wide"><When at={chat.recalled_at} /></td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            <Pager start={start} limit={LIMIT} shown={chats.length} total={num_chats} next={next} what={num_chats === 1 ? "chat" : "chats"} link={(place) => to([namespace, "chats"], { start: place || undefined })} />
          </>
        )
      }
    </Answer>
  );
}
