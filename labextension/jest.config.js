/** Packages that are published as ES modules only, which Jest must transform. */
const esm = [
  '@codemirror',
  '@jupyter',
  '@jupyterlab',
  '@lezer',
  '@lumino',
  '@marijn',
  '@microsoft',
  '@noble',
  '@rjsf',
  'crelt',
  'exenv-es6',
  'lib0',
  'lodash-es',
  'nanoid',
  'style-mod',
  'vscode-ws-jsonrpc',
  'w3c-keyname',
  'y-protocols',
  'yjs'
].join('|');

/** @type {import('jest').Config} */
module.exports = {
  testEnvironment: 'jsdom',
  testTimeout: 60000, // a thousand rows take their time on a slow machine
  setupFiles: ['<rootDir>/jest.setup.js'],
  testMatch: ['<rootDir>/src/**/__tests__/*.spec.ts?(x)'],
  moduleFileExtensions: ['ts', 'tsx', 'js', 'json'],
  moduleNameMapper: {
    '\\.(css|less|svg|raw)$': '<rootDir>/jest.style.js'
  },
  transform: {
    '\\.tsx?$': ['ts-jest', { tsconfig: 'tsconfig.test.json' }],
    [`node_modules[/\\\\](${esm})[/\\\\].+\\.m?js$`]: ['ts-jest', { tsconfig: 'tsconfig.test.json' }]
  },
  transformIgnorePatterns: [`node_modules[/\\\\](?!(${esm})[/\\\\])`],
  reporters: ['default']
};
