// Builds dist/ from src/: one script, one style, one page that names both, each packed
// as it is sent. The same source gives the same bytes, wherever the folder lies.
import { gzipAsync } from '@gfx/zopfli';
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync, rmSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { minify } from 'terser';

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, 'dist');

// No component of ours has a life but to decide whether it is drawn again, none waits
// for a promise, and none writes HTML: what Preact asks for such is answered here, so
// that its code for them is left out.
const never = /\b[\w$]+\.(?:getDerivedStateFrom(?:Props|Error)|component(?:WillReceiveProps|WillUpdate|DidUpdate|WillMount|DidMount|WillUnmount|DidCatch)|getSnapshotBeforeUpdate|getChildContext|contextType|then)\b/g;
const left = /\b(?:createContext|Suspense|lazy|useErrorBoundary|dangerouslySetInnerHTML|component(?:Did|Will)\w+|getDerivedState\w+|getSnapshotBeforeUpdate|getChildContext)\b/;
const lean = {
  name: 'lean',
  setup(b) {
    b.onLoad({ filter: /\/src\/.*\.tsx?$/ }, ({ path }) => {
      const used = readFileSync(path, 'utf8').match(left);
      return used && { errors: [{ text: `${used[0]} is left out of Preact by build.mjs` }] };
    });
    b.onLoad({ filter: /preact\.mjs$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replace(never, 'undefined').replace(/"dangerouslySetInnerHTML"==[\w$]+/g, '!1'),
    }));
  },
};

const result = await build({
  absWorkingDir: here,
  entryPoints: ['src/main.tsx', 'src/app.css'],
  outdir: 'dist',
  bundle: true,
  minify: true,
  write: false,
  format: 'esm',
  target: ['es2022'],
  charset: 'utf8',
  legalComments: 'none',
  inject: ['src/jsx.js'],
  // The checker knows JSX by its automatic form; this one is smaller.
  tsconfigRaw: { compilerOptions: { jsx: 'react', jsxFactory: '$jsx', jsxFragmentFactory: '$fragment' } },
  logLevel: 'warning',
  plugins: [lean],
});

rmSync(out, { recursive: true, force: true });
mkdirSync(out);
let total = 0;
async function pack(name, text) {
  // A twenty-fifth smaller than the best of zlib, and the same bytes under every Node.
  const packed = await gzipAsync(Buffer.from(text), {});
  writeFileSync(join(out, `${name}.gz`), packed);
  total += packed.length;
}
const names = {};
for (const file of result.outputFiles) {
  const kind = file.path.endsWith('.css') ? 'css' : 'js';
  // A second pass over the script takes another kilobyte off what is sent.
  const text = kind === 'css' ? file.text : (await minify(file.text, { module: true, ecma: 2020, compress: { passes: 4, pure_getters: true, unsafe: true } })).code;
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 10);
  names[kind] = `app-${digest}.${kind}`;
  await pack(names[kind], text);
}
const page = readFileSync(join(here, 'src/index.html'), 'utf8');
await pack('index.html', page.replace('APP.js', names.js).replace('APP.css', names.css));
await pack('icon.svg', readFileSync(join(here, 'src/icon.svg')));
console.log(`dist: ${names.js}, ${names.css}: ${total} bytes as sent`);
