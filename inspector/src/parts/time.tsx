import { ago, clock, full, iso } from "../format";

/** A moment as people say it; the exact one is in its title. */
export function When({ at, as = "ago", never = "never" }: { at: number | null; as?: "ago" | "clock" | "full"; never?: string }) {
  if (at === null) return <span class="soft">{never}</span>;
  const shown = as === "ago" ? ago(at) : as === "clock" ? clock(at) : full(at);
  return <time dateTime={iso(at)} title={full(at)}>{shown}</time>;
}
