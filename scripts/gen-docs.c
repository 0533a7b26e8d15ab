/* SPDX-License-Identifier: MIT
 *
 * gen-docs.c: writes the table of options, from the list that the library itself is made of. Run by scripts/gen-docs.
 *
 *   gen-docs markdown    the rows of a table: option, values, default, when it can be set, meaning
 *   gen-docs man         the same as tagged paragraphs of a man page
 */
#include "core/options.h"

#include <stdio.h>
#include <string.h>

typedef struct option {
    const char *name;
    hk_option_kind_t kind;
    long initial, min, max;
    const char *choices;
    hk_option_when_t when;
    const char *help;
} option_t;

static const option_t options[] = {
#define HK_OPTION(id, name, kind, initial, min, max, choices, when, help)                                              \
    {name, HK_OPTION_##kind, initial, min, max, choices, HK_OPTION_AT_##when, help},
#include "core/options.def"
#undef HK_OPTION
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

static void print_size(long size) {
    static const char units[] = " KMGT";
    int unit = 0;
    while (unit < 4 && size != 0 && size % 1024 == 0) {
        size /= 1024;
        unit++;
    }
    printf("%ld%.*s", size, unit > 0, units + unit);
}

static void print_choices(const char *choices, const char *before, const char *after) {
    for (bool first = true; *choices != '\0'; first = false) {
        size_t length = strcspn(choices, ",");
        printf("%s%s%.*s%s", first ? "" : ", ", before, (int)length, choices, after);
        choices += length + (choices[length] == ',');
    }
}

static void print_values(const option_t *option, const char *before, const char *after) {
    if (option->kind == HK_OPTION_CHOICE || option->kind == HK_OPTION_OUTPUT) {
        print_choices(option->choices, before, after);
        const char *rest = option->kind == HK_OPTION_OUTPUT ? strchr(option->choices, ',') : NULL;
        for (; rest != NULL; rest = strchr(rest + 1, ','))
            printf(", %s%.*s:FILE%s", before, (int)strcspn(rest + 1, ","), rest + 1, after);
    } else if (option->kind == HK_OPTION_NUMBER) {
        printf("%ld to %ld", option->min, option->max);
    } else if (option->kind == HK_OPTION_PROFILE) {
        print_choices(option->choices, before, after);
        printf(", %sINTERVAL%s, %sINTERVAL,out=FILE%s", before, after, before, after);
    } else if (option->kind == HK_OPTION_PATH) {
        printf("%soff%s, %sPATH%s", before, after, before, after);
    } else if (option->kind == HK_OPTION_FILE) {
        printf("%soff%s, %sFILE%s", before, after, before, after);
    } else if (option->kind == HK_OPTION_LIMIT) {
        printf("SOFT or SOFT:HARD, or %soff%s", before, after);
    } else {
        printf("bytes, ");
        print_size(option->min);
        printf(" to ");
        print_size(option->max);
    }
}

static void print_default(const option_t *option) {
    const char *choice = option->choices;
    if (option->kind == HK_OPTION_NUMBER)
        printf("%ld", option->initial);
    if (option->kind == HK_OPTION_SIZE || option->kind == HK_OPTION_LIMIT)
        print_size(option->initial);
    if (option->kind == HK_OPTION_LIMIT) { /* both are the same; hak_options_print shows them so */
        printf(":");
        print_size(option->initial);
    }
    if (option->kind == HK_OPTION_NUMBER || option->kind == HK_OPTION_SIZE || option->kind == HK_OPTION_LIMIT)
        return;
    for (long i = 0; i < option->initial; i++)
        choice = strchr(choice, ',') + 1;
    printf("%.*s", (int)strcspn(choice, ","), choice);
}

static void markdown(void) {
    puts("| Variable | Values | Default | Can be set | Meaning |");
    puts("|---|---|---|---|---|");
    for (int i = 0; i < OPTION_COUNT; i++) {
        printf("| `HAKMEM_%s` | ", options[i].name);
        print_values(&options[i], "`", "`");
        printf(" | `");
        print_default(&options[i]);
        printf("` | %s | %s |\n", options[i].when == HK_OPTION_AT_START ? "at start" : "at any time", options[i].help);
    }
}

static void man(void) {
    for (int i = 0; i < OPTION_COUNT; i++) {
        printf(".TP\n.B HAKMEM_%s\n", options[i].name);
        for (const char *c = options[i].help; *c != '\0'; c++)
            printf("%s%c", *c == '-' ? "\\" : "", *c);
        printf(".\nValues: ");
        print_values(&options[i], "", "");
        printf(".\nDefault: ");
        print_default(&options[i]);
        puts(options[i].when == HK_OPTION_AT_START ? ".\nCan be set at start only." : ".");
    }
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "markdown") == 0)
        markdown();
    else if (count == 2 && strcmp(arguments[1], "man") == 0)
        man();
    else
        return 2;
    return 0;
}
