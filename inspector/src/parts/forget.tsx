import { useEffect, useId, useState } from "preact/hooks";
import { ask, Refusal } from "../api";
import { bytes, counted, full, line } from "../format";
import { useSession } from "../session";
import type { Forgotten, Losses, Selection } from "../types";
import { Dialog } from "./dialog";

export interface Choice {
  label: string;
  selection: Selection;
  /** Times are asked for. */
  between?: boolean;
}

interface Forgetting {
  namespace: string;
  label: string;
  choices: Choice[];
  /** Where to go once what this view shows is gone. */
  done: () => void;
}

export function ForgetButton(forgetting: Forgetting) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="button danger" aria-haspopup="dialog" onClick={() => setOpen(true)}>{forgetting.label}</button>
      {isOpen && <ForgetDialog {...forgetting} close={() => setOpen(false)} />}
    </>
  );
}

function ForgetDialog({ namespace, choices, done, close }: Forgetting & { close: () => void }) {
  const { again } = useSession();
  const id = useId();
  const [chosen, setChosen] = useState(0);
  const [since, setSince] = useState("");
  const [until, setUntil] = useState("");
  const [typed, setTyped] = useState("");
  const [losses, setLosses] = useState<Losses | null>(null);
  const [refusal, setRefusal] = useState<Refusal | null>(null);
  const [outcome, setOutcome] = useState<Forgotten | null>(null);
  const [isBusy, setBusy] = useState(false);
  const choice = choices[chosen]!;
  const selection = choice.between ? times(since, until) : choice.selection;
  const key = JSON.stringify(selection);
  const query = { namespace };
  useEffect(() => {
    setLosses(null);
    setRefusal(null);
    if (selection === null) return;
    const control = new AbortController();
    ask<Losses>("losses", query, { ...selection, namespace }, control.signal).then(setLosses, (error: unknown) => {
      if (!control.signal.aborted) setRefusal(error as Refusal);
    });
    return () => control.abort();
  }, [key]);
  const forget = async () => {
    setBusy(true);
    try {
      setOutcome(await ask<Forgotten>("forget", query, { ...selection, namespace }));
    } catch (error) {
      setRefusal(error as Refusal);
    }
    setBusy(false);
  };
  const finish = () => {
    close();
    if (outcome) {
      again();
      done();
    }
  };
  const needsName = selection?.everything === true;
  const can = losses !== null && losses.num_events > 0 && !isBusy && (!needsName || typed === namespace);
  if (outcome) {
    return (
      <Dialog title="Forgotten" close={finish}>
        <p role="status">{counted(outcome.forgotten, "event")} {outcome.forgotten === 1 ? "is" : "are"} gone from the store, the index and the prefix cache.</p>
        {outcome.in_flight > 0 && <p>{counted(outcome.in_flight, "request")} that held some of it {outcome.in_flight === 1 ? "has" : "have"} not ended yet; forget the same once more in a moment.</p>}
        <div class="actions"><button type="button" class="button main" onClick={finish}>Done</button></div>
      </Dialog>
    );
  }
  return (
    <Dialog title="Forget for good" close={close}>
      {choices.length > 1 && (
        <fieldset class="choices">
          <legend>What to forget in <bdi>{namespace}</bdi></legend>
          {choices.map(({ label }, place) => (
            <label key={label}><input type="radio" name={id} checked={place === chosen} onChange={() => setChosen(place)} /> <span>{label}</span></label>
          ))}
        </fieldset>
      )}
      {choices.length === 1 && <p class="sole">{choice.label}</p>}
      {choice.between && (
        <div class="between">
          <label>From <input type="datetime-local" value={since} onInput={(event) => setSince(event.currentTarget.value)} /></label>
          <label>Until <input type="datetime-local" value={until} onInput={(event) => setUntil(event.currentTarget.value)} /></label>
        </div>
      )}
      <div class="losses" aria-live="polite">
        {refusal && <p class="bad">{refusal.message}</p>}
        {!refusal && selection === null && <p class="soft">Say from when, until when, or both.</p>}
        {!refusal && selection !== null && losses === null && <p class="soft">Looking what would be lost…</p>}
        {losses && <Lost losses={losses} />}
      </div>
      {needsName && losses !== null && losses.num_events > 0 && (
        <label class="typed">Type the namespace's name to go on
          <input autocomplete="off" spellcheck={false} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        </label>
      )}
      <p class="soft small">Nobody can bring it back. Replies already given stay, and what is told again is remembered again.</p>
      <div class="actions">
        <button type="button" class="button quiet" onClick={close}>Keep it</button>
        <button type="button" class="button main danger" disabled={!can} onClick={forget}>{isBusy ? "Forgetting…" : losses ? `Forget ${counted(losses.num_events, "event")}` : "Forget"}</button>
      </div>
    </Dialog>
  );
}

function Lost({ losses }: { losses: Losses }) {
  if (losses.num_events === 0) return <p>Nothing: no event is selected by that.</p>;
  const said = losses.since === losses.said_at ? `said on ${full(losses.said_at!)}` : `said from ${full(losses.since!)} to ${full(losses.said_at!)}`;
  return (
    <>
      <p>Lost: <strong>{counted(losses.num_events, "event")}</strong> of {counted(losses.num_chats, "chat")}, {counted(losses.num_tokens, "token")}, {bytes(losses.num_bytes)}, {said}.</p>
      <ul class="samples">
        {losses.events.map((event) => <li key={event.id}><bdi dir="auto">{line(event.words, 120)}</bdi></li>)}
      </ul>
      {losses.num_events > losses.events.length && <p class="soft small">and {counted(losses.num_events - losses.events.length, "more event")}</p>}
    </>
  );
}

function times(since: string, until: string): Selection | null {
  const at = (text: string) => (text ? new Date(text).getTime() / 1000 : undefined);
  const found = { since: at(since), until: at(until) };
  return found.since === undefined && found.until === undefined ? null : found;
}
