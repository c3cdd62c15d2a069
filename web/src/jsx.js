// What JSX becomes, given to every file by build.mjs: smaller than the automatic runtime.
export { h, Fragment } from 'preact';
