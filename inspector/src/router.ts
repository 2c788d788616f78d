// Addresses behind the #, so that every view can be linked to: #/NAMESPACE/events?role=user

import { useEffect, useState } from "preact/hooks";

export interface Place {
  parts: string[];
  query: Record<string, string>;
}

export function parse(hash: string): Place {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  return { parts: path.split("/").filter(Boolean).map(plain), query: Object.fromEntries(new URLSearchParams(search)) };
}

export function to(parts: string[], query: Record<string, string | number | undefined> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

export function go(hash: string): void {
  location.hash = hash;
}

export function usePlace(): Place {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return parse(hash);
}

function plain(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
