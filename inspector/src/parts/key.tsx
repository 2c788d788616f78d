import { useEffect, useId, useRef, useState } from "preact/hooks";
import { keys, setKeys } from "../keys";
import { useSession } from "../session";
import { Dialog } from "./dialog";

export function KeyButton() {
  const { me } = useSession();
  const [isOpen, setOpen] = useState(false);
  const has = keys().memory !== "" || keys().server !== "";
  const who = !has ? "No key" : me === undefined ? "Key" : me.operator ? "Operator" : (me.namespace ?? "Key");
  return (
    <>
      <button class={has ? "key set" : "key"} type="button" onClick={() => setOpen(true)} aria-haspopup="dialog" aria-label={`Your key: ${who}`}>
        <svg viewBox="0 0 20 20" aria-hidden="true"><circle cx="7" cy="13" r="3.4" /><path d="M9.6 10.6 16 4.2M13.4 6.8l2 2" /></svg>
        <span class="who"><bdi>{who}</bdi></span>
      </button>
      {isOpen && (
        <Dialog title="Your key" close={() => setOpen(false)}>
          <p>An operator's key looks after every namespace, another one after its own. It stays in this tab and is gone when you close it.</p>
          <KeyForm done={() => setOpen(false)} />
        </Dialog>
      )}
    </>
  );
}

export function KeyForm({ done = () => {} }: { done?: () => void }) {
  const { again } = useSession();
  const [memory, setMemory] = useState(keys().memory);
  const [server, setServer] = useState(keys().server);
  const id = useId();
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.focus(), []);
  const save = (wanted: { memory: string; server: string }) => {
    setKeys(wanted);
    setMemory(wanted.memory);
    setServer(wanted.server);
    again();
    done();
  };
  return (
    <form class="keys" onSubmit={(event) => { event.preventDefault(); save({ memory: memory.trim(), server: server.trim() }); }}>
      <label for={`${id}-m`}>Key of the memory</label>
      <input ref={first} id={`${id}-m`} type="password" autocomplete="off" spellcheck={false} value={memory} onInput={(event) => setMemory(event.currentTarget.value)} />
      <details open={server !== ""}>
        <summary>The server itself asks for a key (<code>--api-key</code>)</summary>
        <label for={`${id}-s`}>Key of the server</label>
        <input id={`${id}-s`} type="password" autocomplete="off" spellcheck={false} value={server} onInput={(event) => setServer(event.currentTarget.value)} />
      </details>
      <div class="actions">
        {(keys().memory || keys().server) && <button type="button" class="button quiet" onClick={() => save({ memory: "", server: "" })}>Put away</button>}
        <button type="submit" class="button main">Use this key</button>
      </div>
    </form>
  );
}
