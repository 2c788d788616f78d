// What the routes under /v14/ answer (src/v14/engines/sglang/answers.py). Times are Unix seconds.

export interface Me {
  policy: "open" | "keyed" | "required";
  namespace: string | null;
  shared: string[];
  operator: boolean;
}

export interface Sums {
  num_events: number;
  num_tokens: number;
  num_bytes: number;
  said_at: number | null;
  recalled_at: number | null;
}

export interface Use extends Sums {
  namespace: string;
  num_chats: number;
  writable: boolean;
}

export interface Uses {
  namespaces: Use[];
  num_namespaces: number;
  next: number | null;
}

export interface Item {
  id: string;
  namespace: string;
  chat_id: string;
  role: string;
  said_at: number;
  num_tokens: number;
  words: string;
  text: string;
  recalled_at: number | null;
  num_bytes: number;
  form: string;
}

export interface Page {
  events: Item[];
  num_events: number;
  next: number | null;
}

export interface Chat extends Sums {
  chat_id: string;
  since: number;
  first: Item | null;
}

export interface Chats {
  chats: Chat[];
  num_chats: number;
  next: number | null;
}

export interface Ties {
  event: Item;
  before: Item | null;
  links: { kind: string; weight: number; outgoing: boolean; event: Item }[];
  leads: { shared: number; words: string[]; event: Item }[];
  recalled_by: { id: string; at: number; asked: string }[];
}

export interface Brief {
  id: string;
  at: number;
  asked: string;
  num_prompt: number;
  num_recalled: number;
  best_vote: number | null;
  floor: number;
  num_written: number | null;
  first_token_ms: number | null;
  decode_ms: number | null;
}

export interface Briefs {
  requests: Brief[];
  num_requests: number;
  next: number | null;
}

export type Said = Pick<Item, "id" | "namespace" | "chat_id" | "role" | "said_at" | "num_tokens" | "words">;

export interface Story {
  id: string;
  namespace: string;
  at: number;
  asked: string;
  reason: string;
  prompt: {
    token_ids: number[];
    new_start: number;
    cue_start: number;
    cue: { text: string; said: boolean; weight: number; weights: Record<string, number> }[];
  };
  votes: { event_id: string; value: number; recalled: boolean; event: Said | null }[];
  thresholds: { floor: number; sure: number; ratio: number; max_events: number; budget_tokens: number };
  recalled: (Said & { vote: number | null; why: string | null })[];
  spans: { index: number; position: number; num_tokens: number; event_ids: string[]; way: string; composed: string[] }[];
  num_written: number | null;
  ms: Record<string, number>;
}

export interface Selection {
  ids?: string[];
  alike?: boolean;
  chat_id?: string;
  since?: number;
  until?: number;
  request?: string;
  deed?: "recalled" | "written" | "both";
  everything?: boolean;
}

export interface Losses extends Sums {
  namespace: string;
  num_chats: number;
  since: number | null;
  events: Item[];
}

export interface Forgotten {
  namespace: string;
  forgotten: number;
  in_flight: number;
}
