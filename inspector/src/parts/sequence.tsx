import { count, counted } from "../format";
import type { Story } from "../types";

const WAYS: Record<string, string> = {
  kv: "their keys and values were placed",
  reread: "their tokens were read again",
  cached: "they stood in the prefix cache",
};

interface Piece {
  kind: "prompt" | "span";
  num_tokens: number;
  label: string;
}

/** What the engine read: the prompt, and spans of events in front of parts of it. */
export function Sequence({ story }: { story: Story }) {
  const spans = [...story.spans].sort((one, other) => one.index - other.index);
  if (spans.length === 0) return null;
  const length = story.prompt.token_ids.length;
  const pieces: Piece[] = [];
  let done = 0;
  for (const span of spans) {
    if (span.index > done) pieces.push({ kind: "prompt", num_tokens: span.index - done, label: "prompt" });
    pieces.push({ kind: "span", num_tokens: span.num_tokens, label: counted(span.event_ids.length, "event") });
    done = span.index;
  }
  if (length > done) pieces.push({ kind: "prompt", num_tokens: length - done, label: "prompt" });
  return (
    <figure class="sequence">
      <div aria-hidden="true" class="strip">
        {pieces.map((piece, place) => (
          <span key={place} class={piece.kind} style={{ flexGrow: piece.num_tokens }}><b>{piece.label}</b> {count(piece.num_tokens)}</span>
        ))}
      </div>
      <figcaption class="soft small">
        {spans.map((span) => `${counted(span.num_tokens, "token")} of ${counted(span.event_ids.length, "event")} stand at position ${count(span.position)}: ${WAYS[span.way] ?? span.way}${span.composed.length ? `, ${span.composed.length} composed into recurrent states` : ""}.`).join(" ")}
      </figcaption>
    </figure>
  );
}
