import { count } from "../format";

interface Paged {
  start: number;
  limit: number;
  shown: number;
  total: number;
  next: number | null;
  what: string;
  /** Of a search: how many there are is not known before the end, nor where the page before began. */
  searching?: boolean;
  link: (start: number) => string;
}

export function Pager({ start, limit, shown, total, next, what, searching = false, link }: Paged) {
  const first = start + 1;
  const label = shown === 0 ? "" : searching ? `${count(shown)} found${next === null && start === 0 ? "" : " here"}, of ${count(total)} ${what}` : `${count(first)} to ${count(start + shown)} of ${count(total)} ${what}`;
  if (!label && start === 0) return null;
  const before = searching ? 0 : Math.max(0, start - limit);
  return (
    <nav class="pager" aria-label="Pages">
      <p role="status">{label}</p>
      {(start > 0 || next !== null) && (
        <div>
          {start > 0 ? <a class="button" rel="prev" href={link(before)}>{searching ? "First page" : "Previous"}</a> : <span class="button off" aria-hidden="true">Previous</span>}
          {next !== null ? <a class="button" rel="next" href={link(next)}>Next</a> : <span class="button off" aria-hidden="true">Next</span>}
        </div>
      )}
    </nav>
  );
}
