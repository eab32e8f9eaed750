package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// of asks distribution for something of a repository, and returns the digest and the text that it answers with.
func (s *server) of(method, repository, path string) (int, string, []byte) {
	request, _ := http.NewRequest(method, s.target+"/v2/"+repository+path, nil)
	for _, kind := range []string{"application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json",
		"application/vnd.docker.distribution.manifest.list.v2+json", "application/vnd.docker.distribution.manifest.v2+json"} {
		request.Header.Add("Accept", kind)
	}
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		return http.StatusBadGateway, "", nil
	}
	defer got.Body.Close()
	text, _ := io.ReadAll(got.Body)
	return got.StatusCode, got.Header.Get("Docker-Content-Digest"), text
}

// artifacts shows and deletes images by digest, and deletes tags of them.
func (s *server) artifacts(w http.ResponseWriter, r *http.Request, repository string, rest []string, body map[string]json.RawMessage) {
	status, digest, _ := s.of(http.MethodHead, repository, "/manifests/"+rest[0])
	if status != http.StatusOK {
		refuse(w, http.StatusNotFound, "NOT_FOUND", "artifact "+repository+"@"+rest[0]+" not found")
		return
	}
	var listed struct {
		Tags []string `json:"tags"`
	}
	_, _, text := s.of(http.MethodGet, repository, "/tags/list")
	json.Unmarshal(text, &listed)
	tags := []any{}
	for _, tag := range listed.Tags {
		if _, of, _ := s.of(http.MethodHead, repository, "/manifests/"+tag); of == digest {
			tags = append(tags, map[string]string{"name": tag})
		}
	}
	switch {
	case r.Method == http.MethodGet && len(rest) == 1:
		answer(w, http.StatusOK, map[string]any{"digest": digest, "tags": tags, "accessories": []any{}})
		return
	case r.Method == http.MethodPost && len(rest) == 2 && rest[1] == "tags":
		s.tag(w, repository, digest, body)
		return
	case r.Method == http.MethodDelete && len(rest) == 1:
		status, _, text = s.of(http.MethodDelete, repository, "/manifests/"+digest)
	case r.Method == http.MethodDelete && len(rest) == 3 && rest[1] == "tags":
		status, _, text = s.of(http.MethodDelete, repository, "/manifests/"+rest[2])
	default:
		refuse(w, http.StatusMethodNotAllowed, "UNKNOWN", "method not allowed")
		return
	}
	if status != http.StatusAccepted {
		refuse(w, http.StatusInternalServerError, "UNKNOWN", string(text))
		return
	}
	answer(w, http.StatusOK, nil)
}

// tag gives an image a tag that nothing has.
func (s *server) tag(w http.ResponseWriter, repository, digest string, body map[string]json.RawMessage) {
	var name string
	json.Unmarshal(body["name"], &name)
	if status, _, _ := s.of(http.MethodHead, repository, "/manifests/"+name); status == http.StatusOK {
		refuse(w, http.StatusConflict, "CONFLICT", "tag "+name+" already exists")
		return
	}
	_, kind, text := s.of(http.MethodGet, repository, "/manifests/"+digest)
	request, _ := http.NewRequest(http.MethodPut, s.target+"/v2/"+repository+"/manifests/"+name, bytes.NewReader(text))
	var manifest struct {
		MediaType string `json:"mediaType"`
	}
	json.Unmarshal(text, &manifest)
	request.Header.Set("Content-Type", manifest.MediaType)
	got, err := http.DefaultClient.Do(request)
	if err != nil || got.StatusCode != http.StatusCreated || kind == "" {
		refuse(w, http.StatusInternalServerError, "UNKNOWN", "the tag "+name+" was not made")
		return
	}
	got.Body.Close()
	answer(w, http.StatusCreated, nil)
}

// garbage takes an order to collect it, and says that it was done.
func (s *server) garbage(w http.ResponseWriter, r *http.Request, rest []string) {
	switch {
	case r.Method == http.MethodPost && len(rest) == 1 && rest[0] == "schedule":
		s.data.Garbage++
		s.save()
		w.Header().Set("Location", fmt.Sprintf("/api/v2.0/system/gc/%d", s.data.Garbage))
		answer(w, http.StatusCreated, nil)
	case r.Method == http.MethodGet && len(rest) == 0:
		all := []any{}
		if s.data.Garbage > 0 {
			all = append(all, map[string]any{"id": s.data.Garbage, "job_name": "GARBAGE_COLLECTION", "job_status": "Success"})
		}
		answer(w, http.StatusOK, all)
	default:
		refuse(w, http.StatusNotFound, "NOT_FOUND", "path "+r.URL.Path+" was not found")
	}
}
