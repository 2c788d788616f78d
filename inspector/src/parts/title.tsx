import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

/** The heading of a view, which also names the page. */
export function Title({ page, children }: { page: string; children: ComponentChildren }) {
  useEffect(() => {
    document.title = `${page} · Inspector`;
  }, [page]);
  return <h1 tabIndex={-1}>{children}</h1>;
}
