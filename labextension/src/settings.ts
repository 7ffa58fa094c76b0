import type { ISettingRegistry } from '@jupyterlab/settingregistry';

/** Id of the plugin that carries the settings, see `schema/plugin.json`. */
export const SETTINGS_ID = 'jupyter-gq:plugin';

/** The user's settings of this extension. */
export interface ISettings {
  /** Save the notebook when one of its cells is sent. */
  readonly saveOnSend: boolean;
  /** Notify the user when a job is done, failed or was paused. */
  readonly notifyWhenDone: boolean;
}

const DEFAULTS: ISettings = { saveOnSend: true, notifyWhenDone: true };

/** Return the user's settings; without a registry, and for values that are not boolean, the defaults. */
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
