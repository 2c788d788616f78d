// Builds the page into the Python package, or with --check compares what is there with what would be built.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const here = import.meta.dirname;
const target = join(here, "..", "src", "v14", "inspector", "static");

async function bundled() {
  const result = await build({
    absWorkingDir: here,
    entryPoints: { inspector: "src/main.tsx" },
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    charset: "utf8",
    legalComments: "none",
    outdir: "out",
    write: false,
  });
  return Object.fromEntries(result.outputFiles.map((file) => [file.path.split(/[\\/]/).at(-1), file.contents]));
}

async function sources(folder) {
  const found = [];
  for (const entry of await readdir(join(here, folder), { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`;
    found.push(...(entry.isDirectory() ? await sources(path) : [path]));
  }
  return found.sort();
}

async function built() {
  const read = (path) => readFile(join(here, path));
  const files = {
    ...(await bundled()),
    "index.html": await read("src/index.html"),
    "icon.svg": await read("src/icon.svg"),
    "licenses.txt": Buffer.concat([Buffer.from("Preact\n\n"), await read("node_modules/preact/LICENSE")]),
  };
  // So that a test without Node can tell whether the sources are those that were built.
  const paths = ["package-lock.json", "build.mjs", ...(await sources("src"))];
  const digests = await Promise.all(paths.map(async (path) => [path, digest(await read(path))]));
  files["built.json"] = Buffer.from(
    JSON.stringify(
      {
        sources: Object.fromEntries(digests),
        files: Object.fromEntries(Object.entries(files).map(([name, content]) => [name, digest(content)]).sort()),
      },
      null,
      1,
    ) + "\n",
  );
  return files;
}

const digest = (content) => createHash("sha256").update(content).digest("hex");

const files = await built();
if (process.argv.includes("--check")) {
  const different = [];
  for (const [name, content] of Object.entries(files)) {
    const there = await readFile(join(target, name)).catch(() => null);
    if (there === null || !there.equals(Buffer.from(content))) different.push(name);
  }
  if (different.length) {
    console.error(`not what the sources build to: ${different.join(", ")}; run make inspector`);
    process.exit(1);
  }
} else {
  for (const [name, content] of Object.entries(files)) await writeFile(join(target, name), content);
  console.log(Object.entries(files).map(([name, content]) => `${name} ${content.length}`).join("\n"));
}
