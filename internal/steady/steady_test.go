package steady

import (
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	begin, wall := Now(), time.Now()
	if begin == 0 {
		t.Error("a reading is zero")
	}
	time.Sleep(20 * time.Millisecond)
	if age := begin.Since(); age < 20*time.Millisecond || age > time.Since(wall)+time.Second {
		t.Errorf("%v after %v", age, time.Since(wall))
	}
	if age := Now().Since(); age < 1 {
		t.Errorf("age %v", age)
	}
}
