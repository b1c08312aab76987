// Command create-plant creates a plant by the rules of ../clients.md.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	mathrand "math/rand"
	"net/http"
	"os"
	"strconv"
	"time"
)

type NewPlant struct {
	ID int64 `json:"id"`
	Plant
}

type Plant struct {
	Name string  `json:"name"`
	Tag  *string `json:"tag,omitempty"`
}

// Failure is the service's failure response.
type Failure struct {
	Number  int         `json:"error"`
	Message string      `json:"message"`
	Header  http.Header `json:"-"`
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%d %s: %s, request %s", f.Number, f.Header.Get("Error-Name"), f.Message, f.Header.Get("X-Request-Id"))
}

var client = &http.Client{Timeout: 30 * time.Second}

// CreatePlant retries until the end. After an error, the outcome of all attempts together is "none" or "unknown".
func CreatePlant(plant NewPlant, key string, end time.Time) (created Plant, outcome string, err error) {
	outcome = "none"
	body, err := json.Marshal(plant)
	if err != nil {
		return created, outcome, err
	}
	for spread := time.Second; ; {
		if created, err = send(body, key); err == nil {
			return created, "stored", nil
		}
		wait := time.Duration(mathrand.Int63n(int64(spread)))
		failure, isNamed := err.(*Failure)
		if isNamed && !isWorthAnotherTry(failure.Number) {
			return created, outcome, err
		}
		if !isNamed || failure.Header.Get("Write-Outcome") != "none" {
			outcome = "unknown"
		}
		if isNamed {
			seconds, _ := strconv.Atoi(failure.Header.Get("Retry-After"))
			wait += time.Duration(seconds) * time.Second
		}
		if time.Now().Add(wait).After(end) {
			return created, outcome, err
		}
		time.Sleep(wait)
		if spread < 8*time.Second {
			spread *= 2
		}
	}
}

// A response without a number is not the service's.
func isWorthAnotherTry(number int) bool {
	return number == 0 || number == 408 || number == 429 || number == 500 || number == 503
}

func send(body []byte, key string) (created Plant, err error) {
	request, err := http.NewRequest("POST", os.Getenv("PLANTS_URL"), bytes.NewReader(body))
	if err != nil {
		return created, err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("PLANTS_TOKEN"))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	response, err := client.Do(request)
	if err != nil {
		return created, err
	}
	defer response.Body.Close()
	decoder := json.NewDecoder(response.Body)
	if response.StatusCode == http.StatusOK {
		err = decoder.Decode(&created)
		return created, err
	}
	failure := &Failure{Header: response.Header}
	if err := decoder.Decode(failure); err != nil {
		return created, err
	}
	if response.StatusCode != http.StatusBadRequest {
		return created, fmt.Errorf("status %d is not the service's", response.StatusCode)
	}
	return created, failure
}

func main() {
	seconds, err := strconv.Atoi(os.Getenv("PLANTS_RETRY_SECONDS"))
	if err != nil {
		seconds = 120
	}
	// Store the key with your work item before the first attempt.
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		panic(err)
	}
	tag := "tropical"
	plant := NewPlant{ID: 9223372036854775804, Plant: Plant{Name: "Monstera", Tag: &tag}}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	created, outcome, err := CreatePlant(plant, fmt.Sprintf("%x", random), end)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v (write outcome: %s)\n", err, outcome)
		os.Exit(1)
	}
	text, _ := json.Marshal(created)
	fmt.Println(string(text))
}
