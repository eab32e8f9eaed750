// A small server behind which distribution stands, and which answers Harbor's published API v2.0 as far as projects, quotas, robots,
// artifacts with their tags, collections of garbage (which free nothing here), health and systeminfo go (goharbor/harbor, api/v2.0/swagger.yaml): for tests of whoever calls it. It is strict: what it
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
	Garbage  int64               `json:"garbage"`
	Projects map[string]*project `json:"projects"`
	Robots   map[int64]*robot    `json:"robots"`
}

type server struct {
	mutex  sync.Mutex
	file   string
	host   string
	data   database
	tokens map[string]*token
	// bytes of each open upload
	uploads map[string]int64
	proxy   *httputil.ReverseProxy
	target  string
	alive   func() bool
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

// A token of the token service: whose it is, and what it may do in which project. One for other projects is of no use.
type token struct {
	user   string
	access map[string]map[string]bool
}

// login is whose name and password a request shows: "admin", "robot$…", or nobody.
func (s *server) login(r *http.Request) (string, bool) {
	name, password, given := r.BasicAuth()
	if !given {
		return "", true
	}
	if name == "admin" && password == s.data.Admin {
		return name, true
	}
	for _, robot := range s.data.Robots {
		if robot.Name == name && robot.Secret == password && !robot.Disable {
			return name, true
		}
	}
	return "", false
}

func (s *server) may(user, name, action string) bool {
	found := s.data.Projects[name]
	if found == nil {
		return false
	}
	if user == "admin" || found.Public && action == "pull" {
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

// unauthorized is how Harbor's registry says no, to everybody: with where to get a token only to who shows nothing
// (server/middleware/v2auth).
func (s *server) unauthorized(w http.ResponseWriter, r *http.Request, challenge bool, message string) {
	value := ""
	if challenge && r.Header.Get("Authorization") == "" {
		value = fmt.Sprintf(`Bearer realm="https://%s/service/token",service="harbor-registry"`, s.host)
	} else if challenge {
		value = `Basic realm="harbor"`
	}
	w.Header().Set("Www-Authenticate", value)
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", message+": "+message)
}

func project_of(repository string) string {
	name, _, _ := strings.Cut(repository, "/")
	return name
}

// allowed answers in Harbor's place if a request may not go on.
func (s *server) allowed(w http.ResponseWriter, r *http.Request, path string) bool {
	user, _ := s.login(r)
	var shown *token
	if bearer, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); found {
		if shown = s.tokens[bearer]; shown != nil {
			user = shown.user
		}
	}
	if path == "" {
		if user == "" {
			s.unauthorized(w, r, true, "unauthorized")
		}
		return user != ""
	}
	action := map[string]string{"GET": "pull", "HEAD": "pull", "DELETE": "delete"}[r.Method]
	if action == "" {
		action = "push"
	}
	if action == "pull" && r.Header.Get("Authorization") == "" {
		s.unauthorized(w, r, true, "authorize header needed to send HEAD to repository")
		return false
	}
	asked := [][2]string{{path, action}}
	if from := r.URL.Query().Get("from"); r.Method == http.MethodPost && from != "" {
		asked = append(asked, [2]string{from, "pull"})
	}
	for _, one := range asked {
		name := project_of(one[0])
		if s.data.Projects[name] == nil {
			s.unauthorized(w, r, false, "project "+name+" not found")
			return false
		}
		may := s.may(user, name, one[1])
		if shown != nil {
			may = shown.access[name][one[1]]
		}
		if !may {
			s.unauthorized(w, r, true, "unauthorized to access repository: "+one[0]+", action: "+one[1])
			return false
		}
	}
	return true
}

// size is a number of bytes as Harbor writes it (pkg/quota/types/format.go).
func size(bytes int64) string {
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	div, exp := int64(1024), 0
	for n := bytes / 1024; n >= 1024; n /= 1024 {
		div *= 1024
		exp++
	}
	return fmt.Sprintf("%.1f %ciB", float64(bytes)/float64(div), "KMGTPE"[exp])
}

// full answers in Harbor's place if a blob is too large for the project's quota; it is asked when the last of it came.
func (s *server) full(w http.ResponseWriter, r *http.Request, of *project, path string) bool {
	switch {
	case r.Method == http.MethodPatch && r.ContentLength > 0:
		s.uploads[path] += r.ContentLength
	case r.Method == http.MethodPut && strings.Contains(path, "/blobs/uploads/"):
		sent := r.ContentLength
		if sent <= 0 {
			sent = s.uploads[path]
		}
		delete(s.uploads, path)
		if of.Storage >= 0 && of.Used+sent > of.Storage {
			refuse(w, http.StatusForbidden, "DENIED", fmt.Sprintf(
				"adding %s of storage resource, which when updated to current usage of %s will exceed the configured upper limit of %s.",
				size(sent), size(of.Used), size(of.Storage)))
			return true
		}
		of.Used += sent
		s.save()
	}
	return false
}

func (s *server) registry(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v2/")
	s.mutex.Lock()
	if !s.allowed(w, r, path) || path != "" && s.full(w, r, s.data.Projects[project_of(path)], path) {
		s.mutex.Unlock()
		return
	}
	s.mutex.Unlock()
	// distribution itself knows no users.
	r.Header.Del("Authorization")
	r.Header.Set("X-Forwarded-Proto", "https")
	r.Header.Set("X-Forwarded-Host", r.Host)
	s.proxy.ServeHTTP(w, r)
}

func (s *server) token(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	// Harbor gives a token to who shows a wrong password, too: one of nobody.
	user, _ := s.login(r)
	if user == "" && len(r.URL.Query()["scope"]) == 0 {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	made := &token{user: user, access: map[string]map[string]bool{}}
	for _, scope := range r.URL.Query()["scope"] {
		for _, one := range strings.Fields(scope) {
			parts := strings.Split(one, ":")
			if len(parts) < 3 || parts[0] != "repository" {
				continue
			}
			name := project_of(parts[1])
			if made.access[name] == nil {
				made.access[name] = map[string]bool{}
			}
			// Not what was asked for, but what this user may.
			for _, action := range []string{"pull", "push", "delete"} {
				made.access[name][action] = s.may(user, name, action)
			}
		}
	}
	bytes := make([]byte, 16)
	rand.Read(bytes)
	text := hex.EncodeToString(bytes)
	s.tokens[text] = made
	answer(w, http.StatusOK, map[string]any{"token": text, "expires_in": 1800})
}

func (s *server) api(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	parts := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, "/api/v2.0"), "/"), "/")
	user, known := s.login(r)
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
	case func() bool { size, _ := strconv.Atoi(r.URL.Query().Get("page_size")); return size > 100 }():
		refuse(w, http.StatusUnprocessableEntity, "UNPROCESSABLE_ENTITY", "page_size in query should be less than or equal to 100")
	case parts[0] == "projects" && len(parts) >= 6 && parts[2] == "repositories" && parts[4] == "artifacts":
		name, err := url.PathUnescape(parts[3])
		if err != nil {
			refuse(w, http.StatusBadRequest, "BAD_REQUEST", err.Error())
			return
		}
		s.artifacts(w, r, parts[1]+"/"+name, parts[5:], body)
	case parts[0] == "system" && len(parts) >= 2 && parts[1] == "gc":
		s.garbage(w, r, parts[2:])
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
			if !projectName.MatchString(name) {
				refuse(w, http.StatusBadRequest, "BAD_REQUEST", "project name is not in lower case or contains illegal characters")
				return
			}
			if len(name) > 255 || !good || storage == 0 || storage < -1 {
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
			refuse(w, http.StatusPreconditionFailed, "PRECONDITION", "precondition failed: the project contains repositories, can not be deleted")
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
				refuse(w, http.StatusBadRequest, "BAD_REQUEST", "invalid non-positive value for quota limit, value=0")
				return
			}
			one.Storage = hard["storage"]
			s.save()
			answer(w, http.StatusOK, nil)
			return
		}
	}
	if r.Method == http.MethodGet && len(rest) == 0 {
		answer(w, http.StatusOK, []any{})
		return
	}
	refuse(w, http.StatusNotFound, "NOT_FOUND", "quota "+wanted+" not found")
}

// missing is the first project of a robot's rights that is not there.
func (s *server) missing(of *robot) string {
	for _, one := range of.Permissions {
		if one.Namespace != "*" && s.data.Projects[one.Namespace] == nil {
			return one.Namespace
		}
	}
	return ""
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
			if missing := s.missing(made); missing != "" {
				refuse(w, http.StatusNotFound, "NOT_FOUND", "project "+missing+" not found")
				return
			}
			made.Name = "robot$" + made.Name
			for _, one := range s.data.Robots {
				if one.Name == made.Name {
					refuse(w, http.StatusConflict, "CONFLICT", "robot account 0:"+strings.TrimPrefix(made.Name, "robot$")+" already exists")
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
	case r.Method == http.MethodPut && !bad && s.missing(&changed) != "":
		refuse(w, http.StatusNotFound, "NOT_FOUND", "project "+s.missing(&changed)+" not found")
		return
	case r.Method == http.MethodPut && !bad && changed.Name == found.Name && changed.Level == found.Level:
		changed.ID, changed.Secret = found.ID, found.Secret
		*found = changed
	case r.Method == http.MethodPatch && !bad && goodSecret(changed.Secret):
		found.Secret = changed.Secret
	case r.Method == http.MethodPatch:
		refuse(w, http.StatusBadRequest, "BAD_REQUEST", "the secret must be 8-128, inclusively, characters long with at least 1 uppercase letter, 1 lowercase letter and 1 number")
		return
	case r.Method == http.MethodDelete:
		delete(s.data.Robots, id)
	default:
		refuse(w, http.StatusBadRequest, "BAD_REQUEST", "bad request: robot "+found.Name)
		return
	}
	s.save()
	answer(w, http.StatusOK, nil)
}

func goodSecret(text string) bool {
	has := func(kinds string) bool { return regexp.MustCompile(kinds).MatchString(text) }
	return len(text) >= 8 && len(text) <= 128 && has("[a-z]") && has("[A-Z]") && has("[0-9]")
}

func main() {
	target, _ := url.Parse("http://registry:5000")
	s := &server{file: "/data/core.json", host: os.Getenv("EXT_HOST"), tokens: map[string]*token{}, uploads: map[string]int64{}, proxy: httputil.NewSingleHostReverseProxy(target), target: target.String()}
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
		// Each Harbor has this project from its first start.
		s.data.Next = 1
		s.data.Projects["library"] = &project{ID: 1, Name: "library", Public: true, Storage: -1}
		s.save()
	}
	http.HandleFunc("/v2/", s.registry)
	http.HandleFunc("/service/token", s.token)
	http.HandleFunc("/api/v2.0/", s.api)
	go func() {
		redirect := func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://"+s.host+r.URL.Path, http.StatusPermanentRedirect)
		}
		log.Fatal(http.ListenAndServe(":8080", http.HandlerFunc(redirect)))
	}()
	log.Fatal(http.ListenAndServeTLS(":8443", "/etc/cert/server.crt", "/etc/cert/server.key", nil))
}
