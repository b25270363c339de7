// Runs the project's tests as `jest`, `vitest run` or `mocha` would, and tells what each did on a pipe of its own. Started
// as `node launcher.cjs` from outside of the repository; the first line that it reads holds the word that signs the report.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const { createRequire } = require('node:module');
const { pathToFileURL } = require('node:url');

const [say, order] = (() => {
  const [secret, fd, runner, args] = JSON.parse(fs.readFileSync(0, 'utf8'));
  fs.closeSync(0);
  fs.openSync('/dev/null');
  // Taken before any code of the repository is loaded; of strings alone, which nobody can teach to speak for themselves.
  const { writeSync } = fs;
  const { stringify } = JSON;
  const say = (what, name = '', state = '') => {
    writeSync(fd, secret + ' [' + stringify(what) + ',' + stringify('' + name) + ',' + stringify('' + state) + ']\n');
  };
  return [say, { runner, args }];
})();
const root = fs.realpathSync(process.cwd());
const relative = (file) => (file ? path.relative(root, file) : '');

// The directory of an installed package; those of this repository come first.
function installed(name) {
  for (let at = root; ; at = path.dirname(at)) {
    const directory = path.join(at, 'node_modules', name);
    if (fs.existsSync(path.join(directory, 'package.json'))) return directory;
    if (at === path.dirname(at)) return null;
  }
}

const about = (directory) => JSON.parse(fs.readFileSync(path.join(directory, 'package.json'), 'utf8'));
const load = (...parts) => import(pathToFileURL(path.join(...parts)).href);

// Jest: its reporters live in the process that starts the workers; the tests are always given a worker.
const STATES = { passed: 'pass', failed: 'fail' };

class Reporter {
  onTestResult(test, result) {
    const file = relative(result.testFilePath);
    if (result.testExecError || (result.failureMessage && result.testResults.length === 0)) say('unloadable', file);
    for (const one of result.testResults) {
      say('ran', [file, ...one.ancestorTitles, one.title].join(' > '), STATES[one.status] ?? 'skip');
    }
  }
  onRunComplete() {
    say('ended');
  }
}

async function jest(directory, args) {
  process.env.NODE_ENV ??= 'test';
  const alone = args.includes('-i') || args.includes('--runInBand');
  const words = args.filter((word) => word !== '-i' && word !== '--runInBand');
  if (alone) words.push('--maxWorkers=1');
  // With a limit that nobody reaches, jest runs no test in this process.
  if (Number.parseInt(about(directory).version, 10) >= 29) words.push('--workerIdleMemoryLimit=1024GB');
  process.argv = [process.execPath, path.join(directory, 'bin', 'jest.js'), ...words];
  await createRequire(path.join(directory, 'package.json'))(directory).run([
    ...words,
    '--reporters=default',
    `--reporters=${__filename}`,
  ]);
}

// Vitest: its state lives in the process that starts the workers.
async function vitest(directory, args) {
  const entry = about(directory).exports['./node'];
  const node = await load(directory, entry.import?.default ?? entry.import ?? entry.default ?? entry);
  if (!node.parseCLI || !node.startVitest) return say('unavailable');
  const { filter, options } = node.parseCLI(['vitest', 'run', ...args.filter((word) => word !== 'run')]);
  process.argv = [process.execPath, path.join(directory, 'vitest.mjs'), ...args];
  const context = await node.startVitest('test', filter, { ...options, watch: false, run: true });
  const each = (tasks, names) => {
    for (const task of tasks) {
      if (task.tasks) each(task.tasks, [...names, task.name]);
      else {
        const state = task.mode === 'skip' || task.mode === 'todo' ? 'skip' : (task.result?.state ?? 'nothing');
        say('ran', [...names, task.name].join(' > '), state);
      }
    }
  };
  for (const file of context?.state.getFiles() ?? []) {
    if (file.result?.state === 'fail' && file.tasks.length === 0) say('unloadable', relative(file.filepath));
    each(file.tasks, [relative(file.filepath)]);
  }
  await context?.close();
  say('ended');
  process.exit();
}

// Mocha: the tests run in this very process, so what counts is taken and compared before and after each of them.
function watch(owners) {
  const state = () => {
    const found = new Map();
    for (const [name, owner] of owners) {
      for (const key of Reflect.ownKeys(owner)) {
        const at = Reflect.getOwnPropertyDescriptor(owner, key);
        const value = at.value ?? at.get;
        if (typeof value === 'function') found.set(`${name}.${String(key)}`, value);
      }
    }
    return found;
  };
  const before = state();
  return () => {
    const now = state();
    return [...before.keys()].filter((name) => before.get(name) !== now.get(name));
  };
}

async function mocha(directory, args) {
  const extended = fs.existsSync(path.join(directory, 'lib', 'mocha.cjs')) ? 'lib/mocha.cjs' : 'index.js';
  const Mocha = createRequire(path.join(directory, 'package.json'))(path.join(directory, extended));
  const assert = require('node:assert');
  const owners = [['assert', assert], ['assert.strict', assert.strict], ['AssertionError', assert.AssertionError.prototype]];
  for (const name of ['Runner', 'Runnable', 'Test', 'Suite', 'Hook']) owners.push([name, Mocha[name].prototype]);
  owners.push(['EventEmitter', require('node:events').prototype], ['process', { reallyExit: process.reallyExit }]);
  const replaced = watch(owners);
  const tell = (test, state) => {
    for (const name of replaced()) say('replaced', name);
    say('ran', [relative(test.file), ...test.titlePath()].join(' > '), state);
  };
  const { reporter } = Mocha.prototype;
  Mocha.prototype.reporter = function (...rest) {
    reporter.apply(this, rest);
    this._reporter = class extends this._reporter {
      constructor(runner, options) {
        super(runner, options);
        runner.on('pass', (test) => tell(test, 'pass'));
        runner.on('pending', (test) => tell(test, 'skip'));
        runner.on('fail', (test) =>
          test.type === 'hook' ? say('broken', test.titlePath().join(' > ')) : tell(test, 'fail'));
        runner.on('end', () => say('ended'));
      }
    };
    return this;
  };
  process.argv = [process.execPath, path.join(directory, 'bin', 'mocha.js'), ...args];
  const { main, default: common } = await load(directory, 'lib', 'cli', 'cli.js');
  await (main ?? common.main)(args);
}

async function start() {
  const { runner, args } = order;
  const directory = installed(runner);
  if (!directory) return say('unavailable');
  await { jest, vitest, mocha }[runner](directory, args);
}

if (require.main === module) {
  module.exports = Reporter;
  start().catch((error) => {
    console.error(error);
    process.exit(1);
  });
}
