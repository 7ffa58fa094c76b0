import { Notification } from '@jupyterlab/apputils';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Signal } from '@lumino/signaling';

import { NewsFeed } from '../news';
import { desktop } from '../plugins/desktop';
import { CommandIDs } from '../tokens';
import { ENGLISH, aJob } from './builders';
import { FakeApp, FakeTraining, setVisibility, settle } from './fakes';
import { clearScreen } from './screen';

/** The notices of a browser, which gives the permission that a test sets. */
class FakeNotice {
  static permission: NotificationPermission = 'default';
  static answer: NotificationPermission = 'granted';
  static asked = 0;
  static shown: FakeNotice[] = [];

  static requestPermission(): Promise<NotificationPermission> {
    FakeNotice.asked++;
    FakeNotice.permission = FakeNotice.answer;
    return Promise.resolve(FakeNotice.answer);
  }

  constructor(
    readonly title: string,
    readonly options: NotificationOptions
  ) {
    FakeNotice.shown.push(this);
  }

  close(): void {
    this.isClosed = true;
  }

  isClosed = false;
  onclick: () => void = () => undefined;
}

/** The user's settings, which the user may change. */
class FakeSettings {
  readonly changed: Signal<FakeSettings, void> = new Signal<FakeSettings, void>(this);
  composite: Record<string, unknown> = {};

  get registry(): ISettingRegistry {
    return { load: () => Promise.resolve(this) } as unknown as ISettingRegistry;
  }

  turn(on: boolean): void {
    this.composite = { notifyOnDesktop: on };
    this.changed.emit();
  }
}

let app: FakeApp;
let training: FakeTraining;
let feed: NewsFeed;
let settings: FakeSettings;

beforeEach(async () => {
  app = new FakeApp();
  training = new FakeTraining();
  feed = new NewsFeed(training, ENGLISH);
  settings = new FakeSettings();
  Object.assign(FakeNotice, { permission: 'default', answer: 'granted', asked: 0, shown: [] });
  Object.assign(window, { Notification: FakeNotice, focus: () => undefined });
  await desktop.activate(app.frontEnd, feed, settings.registry, null);
  await settle();
});
afterEach(async () => {
  await desktop.deactivate?.(app.frontEnd);
  feed.dispose();
  setVisibility('visible');
  clearScreen();
});

const told = (): string[] => Notification.manager.notifications.map(({ message }) => message);
const shown = (): string[] => FakeNotice.shown.map(({ title, options }) => `${title}: ${options.body}`);
async function finish(id = 'job-1'): Promise<void> {
  training.recordJob(aJob({ id }));
  training.recordJob(aJob({ id, phase: 'done', finished_at: 1120, ran_seconds: 110 }));
  await settle();
}
async function allow(): Promise<void> {
  Notification.manager.notifications[0].options.actions?.[0].callback(new MouseEvent('click'));
  await settle();
}

it('nobody is asked for permission before the user wants notices', async () => {
  setVisibility('hidden');
  await finish();
  expect([FakeNotice.asked, told(), shown()]).toEqual([0, [], []]);
});

it('the user is asked for permission once, by a click', async () => {
  settings.turn(true);
  settings.turn(true);
  expect([FakeNotice.asked, told()]).toEqual([
    0,
    ['Desktop notifications of jobs need the permission of this browser.']
  ]);
  await allow();
  expect(FakeNotice.asked).toBe(1);
});

it('a notice is shown while the page is hidden, and leads to the job', async () => {
  FakeNotice.permission = 'granted';
  settings.turn(true);
  app.addForeignCommand(CommandIDs.showJob);
  await finish('seen');
  setVisibility('hidden');
  await finish();
  expect([told(), shown()]).toEqual([[], ['digits: Trained in vision on 1 GPU for 1 min 50 s']]);
  FakeNotice.shown[0].onclick();
  expect([app.executed, FakeNotice.shown[0].isClosed]).toEqual([
    [[CommandIDs.showJob, { job: 'job-1' }]],
    true
  ]);
});

it.each<[boolean, DocumentVisibilityState, number]>([
  [false, 'hidden', 0],
  [true, 'visible', 0],
  [true, 'hidden', 1]
])(
  'with notices %s and a %s page, the server is asked for %s ended sweeps',
  async (on, visibility, asked) => {
    FakeNotice.permission = 'granted';
    settings.turn(on);
    setVisibility(visibility);
    training.recordJob(aJob({ group: 'sweep-1' }));
    training.recordJob(aJob({ group: 'sweep-1', phase: 'done', finished_at: 1120 }));
    await settle();
    expect(training.server.asked).toHaveLength(asked);
  }
);

it('no notice is shown once the user does not want notices any more', async () => {
  FakeNotice.permission = 'granted';
  settings.turn(true);
  settings.turn(false);
  setVisibility('hidden');
  await finish();
  expect(shown()).toEqual([]);
});

it.each([
  ['refuses', 'denied' as const],
  ['knows no notices', undefined]
])('the user is told if the browser %s', async (_, permission) => {
  Object.assign(window, { Notification: permission === undefined ? undefined : FakeNotice });
  FakeNotice.permission = permission ?? 'default';
  settings.turn(true);
  setVisibility('hidden');
  await finish();
  expect(told()).toEqual([
    'This browser shows no desktop notifications of this page. They need HTTPS, and your permission in its settings.'
  ]);
  expect(shown()).toEqual([]);
});
