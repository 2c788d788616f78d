// Numbers, sizes and times for people.

const NUMBER = new Intl.NumberFormat("en");
const DAY = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const FULL = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_557_600], ["month", 2_629_800], ["day", 86_400], ["hour", 3_600], ["minute", 60],
];

export const count = (value: number): string => NUMBER.format(value);
export const counted = (value: number, one: string, many = `${one}s`): string =>
  `${count(value)} ${value === 1 ? one : many}`;
export const day = (at: number): string => DAY.format(at * 1000);
export const clock = (at: number): string => CLOCK.format(at * 1000);
export const full = (at: number): string => FULL.format(at * 1000);
export const iso = (at: number): string => new Date(at * 1000).toISOString();

export function ago(at: number): string {
  const seconds = at - Date.now() / 1000;
  for (const [unit, size] of STEPS) if (Math.abs(seconds) >= size) return RELATIVE.format(Math.trunc(seconds / size), unit);
  return "just now";
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let place = 0;
  while (size >= 1000 && place < units.length - 1) [size, place] = [size / 1024, place + 1];
  return `${size < 10 && place ? size.toFixed(1) : Math.round(size)} ${units[place]}`;
}

export function ms(value: number): string {
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  if (value >= 1_000) return `${(value / 1000).toFixed(2)} s`;
  return `${value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value.toFixed(2)} ms`;
}

export const speed = (tokens: number, milliseconds: number): string =>
  milliseconds > 0 ? `${(((tokens - 1) * 1000) / milliseconds).toFixed(1)} tokens/s` : "";

export const brief = (id: string): string => (id.startsWith("sha256:") ? id.slice(7, 17) : id);

/** How a trace lies on disk, in words (src/v14/codecs/form.py). */
export function form(text: string): string {
  const sealed = text.includes("+");
  const [codec, ...parts] = (text.split("+")[0] ?? "").split(";");
  const kept = parts.some((part) => part.startsWith("only="));
  const name = codec === "int8" ? "8 bits" : codec === "int4" ? "4 bits" : "as computed";
  return [name, ...(kept ? ["voters' keys only"] : []), ...(sealed ? ["encrypted"] : [])].join(", ");
}

const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Characters that are not seen and change what is, by their numbers: a text must not pass for another one. */
export function visible(text: string): string {
  return text.replace(CONTROLS, (mark) => `⟨${mark.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}⟩`);
}

/** One line of a text, cut at a word. */
export function line(text: string, length = 90): string {
  const flat = visible(text).replace(/\s+/g, " ").trim();
  if (flat.length <= length) return flat;
  const cut = flat.slice(0, length);
  return `${cut.slice(0, Math.max(cut.lastIndexOf(" "), length - 20))}…`;
}
