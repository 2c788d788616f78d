// The reader's keys: in this tab alone, sent in headers, never in an address.

const MEMORY = "v14-key";
const SERVER = "v14-server-key";

export interface Keys {
  memory: string;
  server: string;
}

export function keys(): Keys {
  return { memory: sessionStorage.getItem(MEMORY) ?? "", server: sessionStorage.getItem(SERVER) ?? "" };
}

export function setKeys(wanted: Keys): void {
  for (const [name, key] of [[MEMORY, wanted.memory], [SERVER, wanted.server]] as const) {
    if (key) sessionStorage.setItem(name, key);
    else sessionStorage.removeItem(name);
  }
}

export function headers(): Record<string, string> {
  const { memory, server } = keys();
  return {
    ...(memory ? { "X-V14-Key": memory } : {}),
    ...(server ? { Authorization: `Bearer ${server}` } : {}),
  };
}
