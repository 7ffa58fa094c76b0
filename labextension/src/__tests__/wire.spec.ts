import { spawnSync } from 'child_process';
import { readFileSync } from 'fs';
import { resolve } from 'path';

import { EVENT_SCHEMA } from '../live/events';

const ROOT = resolve(__dirname, '../..');

describe('what travels between the extension and its server', () => {
  it('has the types that the OpenAPI document says', () => {
    const { status, stderr } = spawnSync(process.execPath, ['scripts/wire.mjs', '--check'], { cwd: ROOT });
    expect([status, stderr.toString()]).toEqual([0, '']);
  });

  it('has events with the schema that the server registers', () => {
    const path = resolve(ROOT, '../jupyter_gq/lab/event_schemas/service-v1.yaml');
    expect(readFileSync(path, 'utf-8')).toContain(`"$id": ${EVENT_SCHEMA}\n`);
  });
});
