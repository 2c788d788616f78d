import { line, visible } from "../format";
import { to } from "../router";
import type { Tied } from "../ties";
import type { Item } from "../types";

const WIDTH = 760;
const GAP = 64;
const BOX = { width: 250, height: 46 };

/** An event in the middle, what it is tied to on both sides. The table behind it says the same to who does not see it. */
export function Graph({ event, ties }: { event: Item; ties: Tied[] }) {
  const half = Math.ceil(ties.length / 2);
  const height = Math.max(2, half) * GAP + 20;
  const middle = { x: WIDTH / 2, y: height / 2 };
  const placed = ties.map((tie, place) => {
    const isRight = place % 2 === 0;
    const rows = isRight ? half : ties.length - half;
    return { tie, isRight, x: isRight ? WIDTH - BOX.width / 2 - 4 : BOX.width / 2 + 4, y: middle.y + (Math.floor(place / 2) - (rows - 1) / 2) * GAP };
  });
  return (
    <svg class="graph" viewBox={`0 0 ${WIDTH} ${height}`} aria-hidden="true">
      {placed.map(({ tie, isRight, x, y }) => {
        const edge = isRight ? x - BOX.width / 2 : x + BOX.width / 2;
        const from = middle.x + (isRight ? 62 : -62);
        const bend = (from + edge) / 2;
        return <path key={tie.number} class={`tie ${tie.kind}`} d={`M${from},${middle.y} C${bend},${middle.y} ${bend},${y} ${edge},${y}`} style={{ strokeWidth: 1.2 + Math.min(2.4, tie.weight) }} />;
      })}
      {placed.map(({ tie, x, y }) => (
        <g key={tie.number} class={`node ${tie.kind}`}>
          <a href={to([tie.event.namespace, "event", tie.event.id])} tabindex={-1}>
            <rect x={x - BOX.width / 2} y={y - BOX.height / 2} width={BOX.width} height={BOX.height} rx="9" />
            <circle cx={x - BOX.width / 2 + 19} cy={y} r="10" />
            <text class="mark" x={x - BOX.width / 2 + 19} y={y + 4}>{tie.number}</text>
            <text x={x - BOX.width / 2 + 38} y={tie.words.length || tie.kind !== "lead" ? y - 3 : y + 5}>{line(tie.event.words, 27)}</text>
            {tie.words.length > 0 && <text class="small" x={x - BOX.width / 2 + 38} y={y + 14}>{line(tie.words.map(visible).join(" · "), 30)}</text>}
            {tie.kind !== "lead" && <text class="small" x={x - BOX.width / 2 + 38} y={y + 14}>{tie.says}</text>}
          </a>
        </g>
      ))}
      <g class="node self">
        <rect x={middle.x - 62} y={middle.y - 26} width="124" height="52" rx="12" />
        <text class="mid" x={middle.x} y={middle.y - 3}>this event</text>
        <text class="mid small" x={middle.x} y={middle.y + 14}>{event.role}</text>
      </g>
    </svg>
  );
}
