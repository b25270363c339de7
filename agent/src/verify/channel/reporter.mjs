// Tells what each test of `node --test` did on a pipe of its own: a reporter, in the process that starts one process for
// each file of tests. It is loaded before the first of them starts, and reads the word that signs the report.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const [secret, fd] = JSON.parse(fs.readFileSync(0, 'utf8'));
const root = fs.realpathSync(process.cwd());
const say = (...what) => fs.writeSync(fd, `${secret} ${JSON.stringify(what)}\n`);
const plain = (file) => (file.startsWith('file:') ? fileURLToPath(file) : file);
const relative = (file) => (file ? path.relative(root, path.resolve(root, plain(file))) : '');

export default async function* report(events) {
  const names = [];
  for await (const { type, data } of events) {
    if (type === 'test:start') {
      names.length = data.nesting;
      names.push(data.name);
    }
    if ((type !== 'test:pass' && type !== 'test:fail') || data.details.type === 'suite') continue;
    const file = relative(data.file);
    const chain = [...names.slice(0, data.nesting), data.name];
    // Of a file that declares no test, and of one that cannot be loaded, node makes a test of its own.
    const whole = data.nesting === 0 && path.relative(root, path.resolve(root, data.name)) === file;
    const left = data.skip !== undefined || data.todo !== undefined;
    const state = left ? 'skip' : type === 'test:pass' ? 'pass' : 'fail';
    if (whole && state === 'fail') say('unloadable', file);
    say('ran', whole ? file : [file, ...chain].join(' > '), state);
  }
  say('ended');
  yield '';
}
