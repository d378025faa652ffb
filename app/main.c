#include <stdio.h>

int main(void) {
    puts("palaver " PALAVER_VERSION);
    return 0;
}
