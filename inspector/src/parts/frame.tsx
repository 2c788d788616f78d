import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { to, type Place } from "../router";
import { brief } from "../format";
import { KeyButton } from "./key";

const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

export function Frame({ place, children }: { place: Place; children: ComponentChildren }) {
  return (
    <>
      <a class="skip" href="#content" onClick={skip}>Skip to the content</a>
      <header class="top">
        <div class="topbar">
          <a class="brand" href="#/" aria-label="Inspector: all namespaces"><img src="icon.svg" alt="" width="26" height="26" /><span>Inspector</span></a>
          <Trail place={place} />
          <div class="tools"><KeyButton /><ThemeButton /></div>
        </div>
      </header>
      <main id="content" tabIndex={-1}>{children}</main>
      <footer class="foot"><p>sglang-v14. What is shown here comes from this server and goes nowhere else.</p></footer>
    </>
  );
}

function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

function Trail({ place }: { place: Place }) {
  const [namespace, kind, id] = place.parts;
  if (namespace === undefined) return <span class="trail" />;
  const list = kind === "event" ? "events" : kind === "request" ? "requests" : undefined;
  return (
    <nav class="trail" aria-label="Where you are">
      <ol>
        <li><a href={to([])}>Namespaces</a></li>
        <li><a href={to([namespace, "events"])} aria-current={id === undefined ? "page" : undefined}><bdi>{namespace}</bdi></a></li>
        {list && id !== undefined && <li class="deep"><a href={to([namespace, list])}>{list}</a></li>}
        {list && id !== undefined && <li class="deep" aria-current="page"><code>{brief(id).slice(0, 12)}</code></li>}
      </ol>
    </nav>
  );
}

function ThemeButton() {
  const [theme, setTheme] = useState<Theme>(stored);
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    localStorage.setItem("v14-theme", theme);
  }, [theme]);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!;
  return (
    <button class="icon" type="button" onClick={() => setTheme(next)} aria-label={`Colours: ${theme}. Change to ${next}`} title={`Colours: ${theme}`}>
      <svg viewBox="0 0 20 20" aria-hidden="true">
        {theme === "light" && <><circle cx="10" cy="10" r="3.6" /><path d="M10 2v2M10 16v2M2 10h2M16 10h2M4.3 4.3l1.5 1.5M14.2 14.2l1.5 1.5M4.3 15.7l1.5-1.5M14.2 5.8l1.5-1.5" /></>}
        {theme === "dark" && <path d="M16.5 11.8A7 7 0 1 1 8.2 3.5a5.6 5.6 0 0 0 8.3 8.3z" />}
        {theme === "system" && <><circle cx="10" cy="10" r="7" /><path class="full" d="M10 3a7 7 0 0 1 0 14z" /></>}
      </svg>
    </button>
  );
}

function stored(): Theme {
  const found = localStorage.getItem("v14-theme");
  return THEMES.find((theme) => theme === found) ?? "system";
}
