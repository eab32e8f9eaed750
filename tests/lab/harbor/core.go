// A small server behind which distribution stands, and which answers Harbor's published API v2.0 as far as projects, quotas,
// robots, health and systeminfo go (goharbor/harbor, api/v2.0/swagger.yaml): for tests of whoever calls it. It is strict: what it
// does not know is refused.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

type access struct {
	Resource string `json:"resource"`
	Action   string `json:"action"`
}

type permission struct {
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace"`
	Access    []access `json:"access"`
}

type project struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Public  bool   `json:"public"`
	Storage int64  `json:"storage"`
	Used    int64  `json:"used"`
}

type robot struct {
	ID          int64        `json:"id"`
	Name        string       `json:"name"`
	Description string       `json:"description"`
	Level       string       `json:"level"`
	Duration    int64        `json:"duration"`
	Disable     bool         `json:"disable"`
	Permissions []permission `json:"permissions"`
	Secret      string       `json:"secret,omitempty"`
}

// What Harbor keeps in its database.
type database struct {
	Admin    string              `json:"admin"`
	Next     int64               `json:"next"`
	Projects map[string]*project `json:"projects"`
	Robots   map[int64]*robot    `json:"robots"`
}

type server struct {
	mutex  sync.Mutex
	file   string
	host   string
	data   database
	tokens map[string]string
	proxy  *httputil.ReverseProxy
	alive  func() bool
}

var projectName = regexp.MustCompile(`^[a-z0-9]+(?:[._-][a-z0-9]+)*$`)

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]string{"code": code, "message": message}}})
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if value != nil {
		json.NewEncoder(w).Encode(value)
	}
}

func (s *server) save() {
	text, _ := json.Marshal(s.data)
	if err := os.WriteFile(s.file+".new", text, 0o600); err != nil {
		log.Print(err)
		return
	}
	os.Rename(s.file+".new", s.file)
}

// user is who a request is from: "admin", "robot$…", or nobody.
func (s *server) user(r *http.Request) (string, bool) {
	if bearer, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); found {
		name, known := s.tokens[bearer]
		return name, known
	}
	name, password, given := r.BasicAuth()
	if !given {
		return "", true
	}
	if name == "admin" {
		return name, password == s.data.Admin
	}
	for _, robot := range s.data.Robots {
		if robot.Name == name && robot.Secret == password && !robot.Disable {
			return name, true
		}
	}
	return "", false
}

func (s *server) may(user, name, action string) bool {
	if user == "admin" {
		return true
	}
	found := s.data.Projects[name]
	if found != nil && found.Public && action == "pull" {
		return true
	}
	for _, robot := range s.data.Robots {
		if robot.Name != user {
			continue
		}
		for _, one := range robot.Permissions {
			for _, a := range one.Access {
				if (one.Namespace == name || one.Namespace == "*") && a.Resource == "repository" && a.Action == action {
					return true
				}
			}
		}
	}
	return false
}

func (s *server) registry(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	user, known := s.user(r)
	path := strings.TrimPrefix(r.URL.Path, "/v2/")
	name, _, _ := strings.Cut(path, "/")
	action := "pull"
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		action = "push"
	}
	found := s.data.Projects[name]
	allowed := known && (path == "" && user != "" || path != "" && s.may(user, name, action))
	if allowed && found != nil && r.Method == http.MethodPatch && r.ContentLength > 0 {
		if found.Storage >= 0 && found.Used+r.ContentLength > found.Storage {
			s.mutex.Unlock()
			refuse(w, http.StatusPreconditionFailed, "PRECONDITION", fmt.Sprintf(
				"adding %d of storage resource, which when updated to current usage of %d will exceed the configured upper limit of %d",
				r.ContentLength, found.Used, found.Storage))
			return
		}
		found.Used += r.ContentLength
		s.save()
	}
	s.mutex.Unlock()
	switch {
	case !allowed:
		w.Header().Set("Www-Authenticate", fmt.Sprintf(`Bearer realm="https://%s/service/token",service="harbor-registry"`, s.host))
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "unauthorized to access repository: "+path+", action: "+action)
	case path != "" && found == nil:
		refuse(w, http.StatusNotFound, "NOT_FOUND", "project "+name+" not found")
	default:
		// distribution itself knows no users.
		r.Header.Del("Authorization")
		r.Header.Set("X-Forwarded-Proto", "https")
		r.Header.Set("X-Forwarded-Host", r.Host)
		s.proxy.ServeHTTP(w, r)
	}
}

func (s *server) token(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	user, known := s.user(r)
	if !known {
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "unauthorized")
		return
	}
	bytes := make([]byte, 16)
	rand.Read(bytes)
	token := hex.EncodeToString(bytes)
	s.tokens[token] = user
	answer(w, http.StatusOK, map[string]any{"token": token, "expires_in": 1800})
}

func (s *server) api(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	parts := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, "/api/v2.0"), "/"), "/")
	user, known := s.user(r)
	switch parts[0] {
	case "health":
		status := map[bool]string{true: "healthy", false: "unhealthy"}[s.alive()]
		components := []any{map[string]string{"name": "core", "status": "healthy"}, map[string]string{"name": "registry", "status": status}}
		answer(w, http.StatusOK, map[string]any{"status": status, "components": components})
		return
	case "systeminfo":
		info := map[string]any{"harbor_version": "v2.10.2-lab", "auth_mode": "db_auth"}
		if user != "" && known {
			info["external_url"], info["registry_url"] = "https://"+s.host, s.host
		}
		answer(w, http.StatusOK, info)
		return
	}
	if !known || user == "" {
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "unauthorized")
		return
	}
	if user != "admin" {
		refuse(w, http.StatusForbidden, "FORBIDDEN", "forbidden")
		return
	}
	var body map[string]json.RawMessage
	if r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			refuse(w, http.StatusBadRequest, "BAD_REQUEST", "parsing body failed: "+err.Error())
			return
		}
	}
	switch {
	case parts[0] == "projects":
		s.projects(w, r, parts[1:], body)
	case parts[0] == "quotas":
		s.quotas(w, r, parts[1:], body)
	case parts[0] == "robots":
		s.robots(w, r, parts[1:], body)
	default:
		refuse(w, http.StatusNotFound, "NOT_FOUND", "path "+r.URL.Path+" was not found")
	}
}

func metadata(body map[string]json.RawMessage) (bool, bool) {
	var found struct {
		Public *string `json:"public"`
	}
	if json.Unmarshal(body["metadata"], &found) != nil || found.Public == nil {
		return false, false
	}
	return *found.Public == "true", *found.Public == "true" || *found.Public == "false"
}

func (s *server) projects(w http.ResponseWriter, r *http.Request, rest []string, body map[string]json.RawMessage) {
	if len(rest) == 0 {
		switch r.Method {
		case http.MethodGet:
			answer(w, http.StatusOK, []any{})
		case http.MethodPost:
			var name string
			storage := int64(-1)
			json.Unmarshal(body["project_name"], &name)
			if text := body["storage_limit"]; text != nil {
				json.Unmarshal(text, &storage)
			}
			public, good := metadata(body)
			if !projectName.MatchString(name) || len(name) > 255 || !good || storage == 0 || storage < -1 {
				refuse(w, http.StatusBadRequest, "BAD_REQUEST", "bad request: project "+name)
				return
			}
			if s.data.Projects[name] != nil {
				refuse(w, http.StatusConflict, "CONFLICT", "The project named "+name+" already exists")
				return
			}
			s.data.Next++
			s.data.Projects[name] = &project{ID: s.data.Next, Name: name, Public: public, Storage: storage}
			s.save()
			w.Header().Set("Location", fmt.Sprintf("/api/v2.0/projects/%d", s.data.Next))
			answer(w, http.StatusCreated, nil)
		default:
			refuse(w, http.StatusMethodNotAllowed, "UNKNOWN", "method not allowed")
		}
		return
	}
	found := s.data.Projects[rest[0]]
	if found == nil || len(rest) != 1 {
		refuse(w, http.StatusNotFound, "NOT_FOUND", "project "+rest[0]+" not found")
		return
	}
	switch r.Method {
	case http.MethodGet:
		answer(w, http.StatusOK, map[string]any{
			"project_id": found.ID, "name": found.Name, "owner_id": 1, "owner_name": "admin",
			"metadata": map[string]string{"public": strconv.FormatBool(found.Public)},
		})
	case http.MethodPut:
		public, good := metadata(body)
		if !good {
			refuse(w, http.StatusBadRequest, "BAD_REQUEST", "bad request: metadata")
			return
		}
		found.Public = public
		s.save()
		answer(w, http.StatusOK, nil)
	case http.MethodDelete:
		if found.Used > 0 {
			refuse(w, http.StatusPreconditionFailed, "PRECONDITION", "the project contains repositories, can not be deleted")
			return
		}
		delete(s.data.Projects, rest[0])
		s.save()
		answer(w, http.StatusOK, nil)
	default:
		refuse(w, http.StatusMethodNotAllowed, "UNKNOWN", "method not allowed")
	}
}

func (s *server) quotas(w http.ResponseWriter, r *http.Request, rest []string, body map[string]json.RawMessage) {
	wanted := r.URL.Query().Get("reference_id")
	if len(rest) == 1 {
		wanted = rest[0]
	}
	for _, one := range s.data.Projects {
		if strconv.FormatInt(one.ID, 10) != wanted {
			continue
		}
		switch {
		case r.Method == http.MethodGet && len(rest) == 0:
			quota := map[string]any{"id": one.ID, "hard": map[string]int64{"storage": one.Storage}, "used": map[string]int64{"storage": one.Used}}
			answer(w, http.StatusOK, []any{quota})
			return
		case r.Method == http.MethodPut && len(rest) == 1:
			var hard map[string]int64
			if json.Unmarshal(body["hard"], &hard) != nil || hard["storage"] == 0 {
				refuse(w, http.StatusBadRequest, "BAD_REQUEST", "bad request: hard")
				return
			}
			one.Storage = hard["storage"]
			s.save()
			answer(w, http.StatusOK, nil)
			return
		}
	}
	refuse(w, http.StatusNotFound, "NOT_FOUND", "quota "+wanted+" not found")
}

func (s *server) robots(w http.ResponseWriter, r *http.Request, rest []string, body map[string]json.RawMessage) {
	shown := func(one *robot) robot { copy := *one; copy.Secret = ""; return copy }
	text, _ := json.Marshal(body)
	if len(rest) == 0 {
		switch r.Method {
		case http.MethodGet:
			all := []robot{}
			for _, one := range s.data.Robots {
				all = append(all, shown(one))
			}
			answer(w, http.StatusOK, all)
		case http.MethodPost:
			made := &robot{}
			if json.Unmarshal(text, made) != nil || !projectName.MatchString(made.Name) || made.Level != "system" || len(made.Permissions) == 0 {
				refuse(w, http.StatusBadRequest, "BAD_REQUEST", "bad request: robot "+made.Name)
				return
			}
			made.Name = "robot$" + made.Name
			for _, one := range s.data.Robots {
				if one.Name == made.Name {
					refuse(w, http.StatusConflict, "CONFLICT", "robot "+made.Name+" already exists")
					return
				}
			}
			bytes := make([]byte, 16)
			rand.Read(bytes)
			s.data.Next++
			made.ID, made.Secret = s.data.Next, hex.EncodeToString(bytes)
			s.data.Robots[made.ID] = made
			s.save()
			answer(w, http.StatusCreated, map[string]any{"id": made.ID, "name": made.Name, "secret": made.Secret})
		default:
			refuse(w, http.StatusMethodNotAllowed, "UNKNOWN", "method not allowed")
		}
		return
	}
	id, _ := strconv.ParseInt(rest[0], 10, 64)
	found := s.data.Robots[id]
	if found == nil {
		refuse(w, http.StatusNotFound, "NOT_FOUND", "robot "+rest[0]+" not found")
		return
	}
	changed := robot{}
	bad := json.Unmarshal(text, &changed) != nil
	switch {
	case r.Method == http.MethodPut && !bad && changed.Name == found.Name && changed.Level == found.Level:
		changed.ID, changed.Secret = found.ID, found.Secret
		*found = changed
	case r.Method == http.MethodPatch && !bad && len(changed.Secret) >= 8 && strings.ContainsAny(changed.Secret, "0123456789"):
		found.Secret = changed.Secret
	case r.Method == http.MethodDelete:
		delete(s.data.Robots, id)
	default:
		refuse(w, http.StatusBadRequest, "BAD_REQUEST", "bad request: robot "+found.Name)
		return
	}
	s.save()
	answer(w, http.StatusOK, nil)
}

func main() {
	target, _ := url.Parse("http://registry:5000")
	s := &server{file: "/data/core.json", host: os.Getenv("EXT_HOST"), tokens: map[string]string{}, proxy: httputil.NewSingleHostReverseProxy(target)}
	s.proxy.FlushInterval = -1
	s.alive = func() bool {
		got, err := http.Get(target.String() + "/v2/")
		if err == nil {
			got.Body.Close()
		}
		return err == nil && got.StatusCode == http.StatusOK
	}
	s.data = database{Projects: map[string]*project{}, Robots: map[int64]*robot{}}
	if text, err := os.ReadFile(s.file); err == nil {
		if err := json.Unmarshal(text, &s.data); err != nil {
			log.Fatal(err)
		}
	} else {
		// Only the first start takes it, as Harbor's own.
		s.data.Admin = os.Getenv("HARBOR_ADMIN_PASSWORD")
		s.save()
	}
	http.HandleFunc("/v2/", s.registry)
	http.HandleFunc("/service/token", s.token)
	http.HandleFunc("/api/v2.0/", s.api)
	go func() {
		redirect := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "https://"+s.host+r.URL.Path, http.StatusPermanentRedirect) }
		log.Fatal(http.ListenAndServe(":8080", http.HandlerFunc(redirect)))
	}()
	log.Fatal(http.ListenAndServeTLS(":8443", "/etc/cert/server.crt", "/etc/cert/server.key", nil))
}
