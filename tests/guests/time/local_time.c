// libc's calendar: localtime, strftime, mktime, tzset with a rule in TZ; the present is printed.
#include "../guest.h"

int main(void) {
  CHECK(setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1) == 0);
  tzset();
  time_t t = 1720000000;  // 2024-07-03 09:46:40 UTC
  struct tm tm;
  char text[64];
  CHECK(localtime_r(&t, &tm) && tm.tm_isdst == 1 && tm.tm_hour == 11);
  CHECK(strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %Z", &tm) && strcmp(text, "2024-07-03 11:46:40 CEST") == 0);
  CHECK(mktime(&tm) == t);
  t = time(NULL);
  CHECK(gmtime_r(&t, &tm) && tm.tm_year >= 124 && timegm(&tm) == t);
  CHECK(ctime_r(&t, text));
  printf("now: %s", text);
  return guest_ok();
}
