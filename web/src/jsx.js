// What JSX becomes, given to every file by build.mjs: smaller than the automatic runtime,
// and under names that no variable hides.
export { h as $jsx, Fragment as $fragment } from 'preact';
