import type { ComponentChildren } from "preact";
import type { Asked, Refusal } from "../api";
import { useSession } from "../session";
import { KeyForm } from "./key";
import { Title } from "./title";

const TITLES: Record<number, string> = {
  0: "The server does not answer",
  401: "A key is needed",
  403: "This is not yours to see",
  404: "There is no such thing here",
  503: "The memory is off",
};

const HELP: Record<number, string> = {
  0: "It may be starting or stopped. What you see may be out of date; try again in a moment.",
  404: "It may have been forgotten, or the server was started again: requests are known until then.",
  503: "The server answers requests without memory. Its log says why.",
};

export function Refused({ refusal, title }: { refusal: Refusal; title?: string }) {
  const { again } = useSession();
  const heading = refusal.status === 401 ? (title ?? TITLES[401]!) : (TITLES[refusal.status] ?? "That did not work");
  const wantsKey = refusal.status === 401 || refusal.status === 403;
  return (
    <section class="state" role="alert">
      <Title page={heading}>{heading}</Title>
      <p>{HELP[refusal.status] ?? sentence(refusal.message)}</p>
      {HELP[refusal.status] && <p class="soft small said">{refusal.message}</p>}
      {wantsKey ? <KeyForm /> : <button type="button" class="button" onClick={again}>Try again</button>}
    </section>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state empty">
      <svg viewBox="0 0 64 40" aria-hidden="true"><rect x="1" y="9" width="44" height="10" rx="5" /><rect x="1" y="25" width="62" height="10" rx="5" /></svg>
      <h2>{title}</h2>
      {children && <p>{children}</p>}
    </div>
  );
}

/** What was asked for once it is there; until then lines that stand for it, or what was there before, dimmed. */
export function Answer<T>({ asked, rows = 6, children }: { asked: Asked<T>; rows?: number; children: (value: T) => ComponentChildren }) {
  if (asked.state === "refused") return <Refused refusal={asked.refusal} />;
  if (asked.state === "there") return <>{children(asked.value)}</>;
  if (asked.last !== undefined) return <div class="stale" aria-busy="true">{children(asked.last)}</div>;
  return (
    <div class="waiting" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => <div key={row} />)}
    </div>
  );
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
