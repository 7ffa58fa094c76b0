/** The results of jobs in words, and the code that loads it. Pure. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { JobResults, ResultFile, ResultVariable } from './wire';

/** Return the variables that can be loaded. */
export function listLoadable(results: JobResults): ResultVariable[] {
  return results.variables.filter(variable => variable.reason === '');
}

/**
 * Return one phrase about the variables, such as "model (12 MB) can be loaded; lock did not come back". `isLoaded` tells
 * whether the user has loaded those that can be loaded.
 */
export function describeVariables(results: JobResults, isLoaded: boolean, trans: TranslationBundle): string {
  const loadable = listLoadable(results);
  const lost = results.variables.filter(variable => variable.reason !== '');
  const join = (words: string[]): string => joinWords(words, trans);
  const sized = join(loadable.map(describeVariable));
  const offered = isLoaded
    ? trans.__('%1 loaded into the notebook', sized)
    : trans.__('%1 can be loaded', sized);
  const parts = [
    loadable.length === 0 ? '' : offered,
    lost.length === 0 ? '' : trans.__('%1 did not come back', join(lost.map(variable => variable.name)))
  ];
  return parts.filter(part => part !== '').join('; ');
}

/** Return a line for each variable that did not come back, with the reason. */
export function describeReasons(results: JobResults): string[] {
  return results.variables
    .filter(variable => variable.reason !== '')
    .map(variable => `${variable.name}: ${variable.reason}`);
}

/** Return the files whose content was kept, so that they can be copied. */
export function listCopyable(results: JobResults): ResultFile[] {
  return results.files.filter(file => file.reason === '');
}

/** Return the size of a file, and why its content was not kept if it was not. */
export function describeFile(file: ResultFile): string {
  return [formatBytes(file.bytes), file.reason].filter(part => part !== '').join('. ');
}

/** Return the code of a cell that loads variables of a job into the notebook. */
export function makeLoadingCode(job: string, names: readonly string[]): string {
  // A variable of the name of the package hides it from all lines below.
  const hides = (name: string): boolean => name === PACKAGE;
  const ordered = [...names.filter(name => !hides(name)), ...names.filter(hides)];
  return [`import ${PACKAGE}`, ...ordered.map(name => makeLoadingLine(job, name))].join('\n');
}

const PACKAGE = 'jupyter_gq';

/** Return the line of code that loads one variable of a job. */
export function makeLoadingLine(job: string, name: string): string {
  return `${name} = ${PACKAGE}.result("${job}", "${name}")`;
}

/** The name that stands for all variables of a job. */
export const ALL_NAMES = '*';

/** A line of the magic, with the job and the names. */
const LOADING_MAGIC = /^\s*%gq_load\s+(\S+)(.*)$/;
/** The line of the magic for `last`, which names the job that it was. */
const LAST_LOADED = /^Loaded .* from (\S+)$/m;

/**
 * Return the lines of a code that may each load a variable of a job. A line of `%gq_load` counts as one line for each of
 * its names; `read` returns what the code has printed, which tells the job of `%gq_load last`.
 */
export function listLoadingLines(code: string, read: () => string): string[] {
  return code.split('\n').flatMap(line => {
    const magic = LOADING_MAGIC.exec(line);
    if (magic === null) {
      return line.includes(` = ${PACKAGE}.result(`) ? [line] : [];
    }
    const job = magic[1] === 'last' ? LAST_LOADED.exec(read())?.[1] : magic[1];
    const names = magic[2].split(/\s+/).filter(name => name !== '');
    return job === undefined
      ? []
      : (names.length > 0 ? names : [ALL_NAMES]).map(name => makeLoadingLine(job, name));
  });
}

function describeVariable(variable: ResultVariable): string {
  return variable.bytes === null ? variable.name : `${variable.name} (${formatBytes(variable.bytes)})`;
}

/** Return a number of bytes with a unit, such as "12 MB". */
export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit > 0 && value < 9.95 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

function joinWords(words: readonly string[], trans: TranslationBundle): string {
  const last = words[words.length - 1];
  return words.length < 2 ? (last ?? '') : trans.__('%1 and %2', words.slice(0, -1).join(', '), last);
}
