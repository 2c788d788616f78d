// Asking the server that gave this page.

import { useEffect, useState } from "preact/hooks";
import { headers } from "./keys";

export class Refusal extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

export type Query = Record<string, string | number | undefined>;

export async function ask<T>(path: string, query: Query = {}, body?: unknown, signal?: AbortSignal): Promise<T> {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  let reply: Response;
  try {
    reply = await fetch(`${path}${search ? `?${search}` : ""}`, {
      method: body === undefined ? "GET" : "POST",
      headers: { ...headers(), ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal(0, "The server does not answer.");
  }
  if (!reply.ok) throw new Refusal(reply.status, await said(reply));
  return (await reply.json()) as T;
}

async function said(reply: Response): Promise<string> {
  try {
    const { detail, error } = (await reply.json()) as { detail?: unknown; error?: unknown };
    const found = detail ?? (error as { message?: unknown } | undefined)?.message ?? error;
    return typeof found === "string" ? found : JSON.stringify(found);
  } catch {
    return reply.statusText || `status ${reply.status}`;
  }
}

export type Asked<T> =
  | { state: "waiting"; last?: T }
  | { state: "there"; value: T }
  | { state: "refused"; refusal: Refusal };

/** What the server answers; asked again when path, query or `round` change. What was there before stays in `last`. */
export function useAsked<T>(path: string | null, query: Query = {}, round = 0): Asked<T> {
  const [asked, setAsked] = useState<Asked<T>>({ state: "waiting" });
  const key = JSON.stringify([path, query, round]);
  useEffect(() => {
    if (path === null) return;
    const control = new AbortController();
    setAsked((before) => ({ state: "waiting", last: before.state === "there" ? before.value : undefined }));
    ask<T>(path, query, undefined, control.signal).then(
      (value) => setAsked({ state: "there", value }),
      (error: unknown) => {
        if (control.signal.aborted) return;
        setAsked({ state: "refused", refusal: error instanceof Refusal ? error : new Refusal(0, String(error)) });
      },
    );
    return () => control.abort();
  }, [key]);
  return asked;
}
