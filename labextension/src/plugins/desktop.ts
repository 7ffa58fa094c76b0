import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import { DisposableDelegate } from '@lumino/disposable';

import { definePlugin } from '../lifetime';
import type { IListener, INews } from '../news';
import { stripControls } from '../plain';
import { selectSettings, SETTINGS_ID } from '../settings';
import { CommandIDs, INewsFeed } from '../tokens';

/** The notifications of the desktop, for a page that cannot be seen. They are off until the user turns them on. */
export const desktop = definePlugin({
  id: 'jupyter-gq:desktop',
  description: 'Notifies the user on the desktop while the page cannot be seen, if the settings say so.',
  autoStart: true,
  requires: [INewsFeed],
  optional: [ISettingRegistry],
  activate: ({ app, owned, trans }, feed: INewsFeed, registry: ISettingRegistry | null): void => {
    if (registry === null) {
      return;
    }
    const notices = new DesktopNotices(app.commands, trans);
    owned.add(feed.listen(notices));
    void registry.load(SETTINGS_ID).then(settings => {
      if (owned.isDisposed) {
        return; // the plugin was deactivated meanwhile
      }
      const update = (): void => notices.turn(selectSettings(settings.composite).notifyOnDesktop);
      settings.changed.connect(update);
      owned.add(new DisposableDelegate(() => settings.changed.disconnect(update)));
      update();
    });
  }
});

/** Notices of the browser about jobs. */
class DesktopNotices implements IListener {
  constructor(
    private readonly _commands: CommandRegistry,
    private readonly _trans: TranslationBundle
  ) {}

  /** Turn the notices on or off, as the user wants it. Turned on, they need the permission of the browser. */
  turn(on: boolean): void {
    if (on === this._isOn) {
      return;
    }
    this._isOn = on;
    if (!on) {
      return;
    }
    const { Notification: notice } = window;
    if (notice === undefined || notice.permission === 'denied') {
      this._explain();
    } else if (notice.permission === 'default') {
      this._offer();
    }
  }

  /** Return whether notices are on and permitted, and the page cannot be seen. */
  isWanted(): boolean {
    return (
      this._isOn && document.visibilityState === 'hidden' && window.Notification?.permission === 'granted'
    );
  }

  tell(news: INews): void {
    void this._show(news);
  }

  /** Show the news. A click leads to the job. */
  private async _show({ id, name, job, describe }: INews): Promise<void> {
    // Several tabs of one user show one notice.
    const shown = new window.Notification(stripControls(name), {
      body: await describe(),
      tag: `jupyter-gq-${id}`
    });
    shown.onclick = () => {
      window.focus();
      shown.close();
      void this._commands.execute(CommandIDs.showJob, { job });
    };
  }

  /** Let the user ask the browser for its permission: browsers answer only to a click. */
  private _offer(): void {
    Notification.info(this._trans.__('Desktop notifications of jobs need the permission of this browser.'), {
      autoClose: false,
      actions: [{ label: this._trans.__('Allow…'), callback: () => void this._ask() }]
    });
  }

  private async _ask(): Promise<void> {
    if ((await window.Notification.requestPermission()) === 'denied') {
      this._explain();
    }
  }

  private _explain(): void {
    Notification.warning(
      this._trans.__(
        'This browser shows no desktop notifications of this page. They need HTTPS, and your permission in its settings.'
      ),
      { autoClose: 10000 }
    );
  }

  private _isOn = false;
}
