/* SPDX-License-Identifier: MIT
 *
 * orders.h: what the process does when somebody outside asks (core/request.h).
 */
#ifndef HK_INSPECT_ORDERS_H
#define HK_INSPECT_ORDERS_H

/* From now on requests are followed. */
void inspect_follow_orders(void);

#endif
