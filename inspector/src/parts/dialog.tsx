import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

/** The browser's own modal dialog: it keeps the focus, Escape closes it, and the focus goes back where it was. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const from = document.activeElement;
    dialog.current?.showModal();
    return () => from instanceof HTMLElement && from.isConnected ? from.focus() : undefined;
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={close} onClick={(event) => event.target === dialog.current && dialog.current?.close()}>
      <div class="sheet">
        <div class="head">
          <h2 id={id}>{title}</h2>
          <button class="icon" type="button" aria-label="Close" onClick={() => dialog.current?.close()}>
            <svg viewBox="0 0 20 20" aria-hidden="true"><path d="m5 5 10 10M15 5 5 15" /></svg>
          </button>
        </div>
        {children}
      </div>
    </dialog>
  );
}
