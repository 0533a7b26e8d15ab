/* SPDX-License-Identifier: MIT
 *
 * What plugin.c opens.
 */
int plugin_needed(void);

int plugin_needed(void) { return 42; }
