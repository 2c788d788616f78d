import { visible } from "../format";
import type { Story } from "../types";

const STEPS = 5;

/** The cue's tokens, each darker the more it gave to the votes; the numbers are in a table for who wants them. */
export function Words({ story }: { story: Story }) {
  const { cue } = story.prompt;
  const most = Math.max(0, ...cue.map((token) => token.weight));
  if (cue.length === 0) return <p class="asked" dir="auto">{visible(story.asked)}</p>;
  const step = (weight: number) => (most > 0 && weight > 0 ? Math.max(1, Math.round((STEPS * weight) / most)) : 0);
  return (
    <>
      <p class="asked" dir="auto">
        {cue.map((token, place) => (
          <span key={place} class={`token w${step(token.weight)}${token.said ? "" : " mark"}`} title={token.weight.toFixed(4)}>{spaced(token.text)}</span>
        ))}
      </p>
      <div class="under">
        <p class="scale soft small" aria-hidden="true">gave nothing {Array.from({ length: STEPS + 1 }, (_, at) => <i key={at} class={`w${at}`} />)} gave most</p>
        <details class="numbers">
          <summary>The words with their weights</summary>
          <table class="grid tight">
            <caption class="hidden">Tokens of the question and what each gave to the votes</caption>
            <thead><tr><th scope="col">Token</th><th scope="col" class="number">Weight</th></tr></thead>
            <tbody>{cue.map((token, place) => <tr key={place}><th scope="row"><bdi>{visible(token.text).replace(/ /g, "␣").replace(/\n/g, "↵")}</bdi></th><td class="number">{token.weight.toFixed(4)}</td></tr>)}</tbody>
          </table>
        </details>
      </div>
    </>
  );
}

const spaced = (text: string): string => visible(text).replace(/\n/g, "↵\n");
