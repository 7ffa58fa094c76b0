import type { ISettingRegistry } from '@jupyterlab/settingregistry';

/** Id of the plugin that carries the settings, see `schema/plugin.json`. */
export const SETTINGS_ID = 'jupyter-gq:plugin';

export interface ISettings {
  /** Save the notebook when a cell of it is sent. */
  readonly saveOnSend: boolean;
  /** Tell in a toast when a job is over. */
  readonly notifyWhenDone: boolean;
}

const DEFAULTS: ISettings = { saveOnSend: true, notifyWhenDone: true };

/** The user's settings; the defaults where there is no registry. */
export async function readSettings(registry: ISettingRegistry | null): Promise<ISettings> {
  if (registry === null) {
    return DEFAULTS;
  }
  const { composite } = await registry.load(SETTINGS_ID);
  return {
    saveOnSend: typeof composite.saveOnSend === 'boolean' ? composite.saveOnSend : DEFAULTS.saveOnSend,
    notifyWhenDone:
      typeof composite.notifyWhenDone === 'boolean' ? composite.notifyWhenDone : DEFAULTS.notifyWhenDone
  };
}
