import tseslint from 'typescript-eslint';

export default tseslint.config(
  {
    ignores: [
      'lib/**',
      'scripts/**',
      'src/wire.ts',
      'style/**',
      'node_modules/**',
      'jest.*.js',
      'eslint.config.mjs'
    ]
  },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      parserOptions: { project: './tsconfig.test.json', tsconfigRootDir: import.meta.dirname }
    },
    rules: {
      '@typescript-eslint/explicit-function-return-type': ['error', { allowExpressions: true }],
      '@typescript-eslint/naming-convention': [
        'error',
        { selector: 'interface', format: ['PascalCase'], prefix: ['I'] },
        {
          selector: 'memberLike',
          modifiers: ['private'],
          format: ['camelCase'],
          leadingUnderscore: 'require'
        }
      ],
      '@typescript-eslint/no-namespace': 'off', // JupyterLab itself has namespaces of command ids
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-confusing-void-expression': [
        'error',
        { ignoreArrowShorthand: true, ignoreVoidOperator: true }
      ],
      '@typescript-eslint/unbound-method': 'off', // Lumino's signals take the object beside the method
      '@typescript-eslint/no-unnecessary-condition': 'off', // the service may be older or newer than the types
      'max-lines': ['error', 500],
      'max-lines-per-function': ['error', { max: 50, skipBlankLines: true, skipComments: true }],
      'max-params': ['error', 6],
      eqeqeq: 'error'
    }
  },
  {
    files: ['**/__tests__/**'],
    rules: {
      'max-lines-per-function': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off'
    }
  }
);
