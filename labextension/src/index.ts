/**
 * The plugins of this package, one for each concern. They use nothing that is newer than JupyterLab 4.4.
 *
 * See docs/decisions/0157-click-in-the-oldest-jupyterlab.md.
 */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { again } from './plugins/again';
import { copies } from './plugins/copies';
import { countdown } from './plugins/countdown';
import { desktop } from './plugins/desktop';
import { history } from './plugins/history';
import { jobs } from './plugins/jobs';
import { lending } from './plugins/lending';
import { loaded } from './plugins/loaded';
import { log } from './plugins/log';
import { memory } from './plugins/memory';
import { news } from './plugins/news';
import { notify } from './plugins/notify';
import { outputs } from './plugins/outputs';
import { palette } from './plugins/palette';
import { panel } from './plugins/panel';
import { patience } from './plugins/patience';
import { running } from './plugins/running';
import { selection } from './plugins/selection';
import { send } from './plugins/send';
import { status } from './plugins/status';
import { training } from './plugins/training';
import { unused } from './plugins/unused';

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  training,
  history,
  loaded,
  outputs,
  send,
  again,
  jobs,
  log,
  copies,
  selection,
  panel,
  palette,
  running,
  status,
  countdown,
  lending,
  memory,
  unused,
  news,
  notify,
  desktop,
  patience
];

export default plugins;

export {
  CommandIDs,
  ICellOutputs,
  ILoadedVariables,
  INewsFeed,
  IRunHistory,
  ISender,
  ITraining
} from './tokens';
