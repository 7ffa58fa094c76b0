import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';

import { definePlugin } from '../lifetime';
import type { INews } from '../news';
import { readSettings } from '../settings';
import { fitToast, quoteName } from '../toasts';
import { CommandIDs, INewsFeed } from '../tokens';

/** The notifications about jobs that this page has seen before they were done, failed or paused, and about sweeps. */
export const notify = definePlugin({
  id: 'jupyter-gq:notify',
  description: 'Notifies the user when a job is done, failed or was paused, and when a sweep is over.',
  autoStart: true,
  requires: [INewsFeed],
  optional: [ISettingRegistry],
  activate: ({ app, owned, trans }, feed: INewsFeed, registry: ISettingRegistry | null): void => {
    owned.add(
      feed.listen({
        isWanted: async () => (await readSettings(registry)).notifyWhenDone,
        tell: news => void notifyUser(app, news, trans)
      })
    );
  }
});

async function notifyUser(app: JupyterFrontEnd, news: INews, trans: TranslationBundle): Promise<void> {
  const { job } = news;
  const offer = (label: string, command: string): Notification.IAction => ({
    label,
    callback: () => void app.commands.execute(command, { job })
  });
  const show = offer(trans.__('Details'), CommandIDs.showJob);
  const actions = news.hasCell ? [offer(trans.__('Go to cell'), CommandIDs.goToCell), show] : [show];
  const message = fitToast(`${quoteName(news.name)}: ${await news.describe()}`);
  switch (news.phase) {
    case 'done':
      Notification.success(message, { autoClose: 6000, actions });
      return;
    case 'failed':
      Notification.error(message, { autoClose: 10000, actions });
      return;
    default:
      Notification.info(message, { autoClose: 8000, actions });
  }
}
