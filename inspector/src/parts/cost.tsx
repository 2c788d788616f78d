import { ms as shown } from "../format";
import type { Story } from "../types";

const PARTS: [string, string][] = [
  ["wait", "waiting for what was read before"],
  ["load", "finding the namespace's index"],
  ["vote", "votes of all events"],
  ["choose", "from votes to a plan"],
  ["explain", "which words the votes rest on"],
  ["fetch", "reading traces from the store"],
  ["turn", "turning keys to their places"],
  ["place", "putting the span in front, fetching and turning included"],
  ["observe", "copying off what was read, at the end"],
  ["keep", "making events of it, in the background"],
];

/** The request in time: to its plan, to its first token, to its last; and the memory's own parts. */
export function Cost({ story }: { story: Story }) {
  const { ms } = story;
  const probe = ms.probe ?? 0;
  const first = ms.first_token ?? probe;
  const decode = ms.decode ?? 0;
  const steps = [
    { name: "looking", says: "to the plan", value: probe },
    { name: "reading", says: "to the first token", value: Math.max(0, first - probe) },
    { name: "writing", says: "to the last token", value: decode },
  ];
  const parts = PARTS.filter(([name]) => ms[name] !== undefined);
  const most = Math.max(...parts.map(([name]) => ms[name]!), 0.001);
  return (
    <>
      <figure class="timeline">
        <div class="strip" aria-hidden="true">{steps.map((step) => <span key={step.name} class={step.name} style={{ flexGrow: step.value }} />)}</div>
        <figcaption><ul>{steps.map((step) => <li key={step.name}><i class={step.name} aria-hidden="true" /> {step.says} <strong>{shown(step.value)}</strong></li>)}</ul></figcaption>
      </figure>
      <table class="parts">
        <caption>The memory's own parts of it</caption>
        <thead class="hidden"><tr><th scope="col">Part</th><th scope="col">As a bar</th><th scope="col">Time</th></tr></thead>
        <tbody>
          {parts.map(([name, says]) => (
            <tr key={name}><th scope="row"><strong>{name}</strong> <span class="soft">{says}</span></th><td class="bar" aria-hidden="true"><div><span class="fill" style={{ width: `${(100 * ms[name]!) / most}%` }} /></div></td><td class="number">{shown(ms[name]!)}</td></tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
